package javax.annotation;

/** Stands for the annotation of jakarta.annotation-api, which the client's pom.xml gets by Maven. */
public @interface Generated {
  String[] value();

  String date() default "";

  String comments() default "";
}
