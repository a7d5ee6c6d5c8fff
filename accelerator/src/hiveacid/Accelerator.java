package hiveacid;

import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;

/** What this jar was built from and for; asked by {@code airflow_hive_acid/spark/accelerator.py}. */
public final class Accelerator {
  private static final Properties BUILD = read();

  private Accelerator() {}

  /** Major and minor version of the Spark whose jars it was compiled against, for example {@code 4.3}. */
  public static String spark() {
    return BUILD.getProperty("spark");
  }

  /** Version of Scala that this Spark was built with, for example {@code 2.13}. */
  public static String scala() {
    return BUILD.getProperty("scala");
  }

  /** Version of the Python package it belongs to. */
  public static String version() {
    return BUILD.getProperty("version");
  }

  private static Properties read() {
    Properties properties = new Properties();
    try (InputStream stream = Accelerator.class.getResourceAsStream("accelerator.properties")) {
      properties.load(stream);
    } catch (IOException e) {
      throw new ExceptionInInitializerError(e);
    }
    return properties;
  }
}
