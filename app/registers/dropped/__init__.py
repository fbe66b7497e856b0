"""The drop directory of `import --drop`: new files, loaded files and failed files."""
