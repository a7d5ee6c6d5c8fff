package hiveacid.read;

import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import org.apache.spark.TaskContext;

/** Failures in the words that {@code airflow_hive_acid/spark/failures.py} takes apart: class name and message. */
final class Failures {
  private Failures() {}

  /** A {@code CorruptTableError}: the files of the table are not what the metastore says. */
  static RuntimeException corrupt(String message, Throwable cause) {
    String text = "[USER_RAISED_EXCEPTION] [hive-acid CorruptTableError] " + message + " [end hive-acid]";
    return new IllegalStateException(text, cause);
  }

  /** What a failure while a file was read means; a cancelled task is no damage. */
  static RuntimeException whileReading(String uri, Exception failure) {
    TaskContext task = TaskContext.get();
    boolean cancelled =
        (task != null && task.isInterrupted())
            || failure instanceof InterruptedIOException
            || failure instanceof ClosedByInterruptException
            || Thread.currentThread().isInterrupted();
    if (cancelled || isExplained(failure)) {
      return failure instanceof RuntimeException known ? known : new IllegalStateException(failure);
    }
    String message = uri + " is missing or cannot be read, and rows would be lost without it: " + failure;
    return corrupt(message.length() > 1500 ? message.substring(0, 1500) : message, failure);
  }

  private static boolean isExplained(Exception failure) {
    String message = failure.getMessage();
    return failure instanceof IllegalStateException && message != null && message.contains("[hive-acid ");
  }

  /** Events of another kind than the file's name promises. */
  static RuntimeException wrongKind(String uri, String found, int expected) {
    return corrupt(
        uri + ": a data file holds events of " + found + " instead of " + expected
            + ": it is of another directory and does not belong here; move it away",
        null);
  }
}
