"""The demo register: 300 invented vehicles with realistic papers on any day."""

from app.registers.demo.cast import CAST
from app.registers.demo.register import DemoRegister, demo_register, write_files

__all__ = ["CAST", "DemoRegister", "demo_register", "write_files"]
