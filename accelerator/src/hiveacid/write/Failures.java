package hiveacid.write;

/** Failures that reach the user as an error of the Python package: {@code airflow_hive_acid/spark/failures.py}. */
public final class Failures {
  private Failures() {}

  /**
   * A failure with a message for the user.
   *
   * @param error name of a class in {@code airflow_hive_acid.errors}
   */
  public static RuntimeException of(String error, String message) {
    return new IllegalStateException(
        "[USER_RAISED_EXCEPTION] [hive-acid " + error + "] " + message + " [end hive-acid]");
  }
}
