package hiveacid;

import org.apache.orc.ColumnStatistics;
import org.apache.orc.Reader;
import org.apache.orc.StripeInformation;

/** What a footer says about the rows of its file, three times over: a damaged one contradicts itself. */
public final class Footer {
  private Footer() {}

  /**
   * Whether the statistics of a footer count nothing, as of files that a Hive 3.1 has compacted: they have no row index.
   */
  public static boolean saysNothing(Reader reader) {
    return reader.getRowIndexStride() == 0 && reader.getStatistics()[0].getNumberOfValues() == 0;
  }

  /**
   * Refuse an ACID file whose footer contradicts itself about its rows; all of it has been read already.
   *
   * @throws IllegalStateException with a {@code CorruptTableError} for the user
   */
  public static void requireConsistent(String uri, Reader reader) {
    long rows = reader.getNumberOfRows();
    long stored = 0;
    for (StripeInformation stripe : reader.getStripes()) {
      stored += stripe.getNumberOfRows();
    }
    ColumnStatistics[] statistics = reader.getStatistics();
    // A file without rows need not have statistics.
    long counted = rows == 0 && stored == 0 ? 0 : statistics[0].getNumberOfValues();
    if (rows != stored || (rows != counted && !saysNothing(reader))) {
      throw new IllegalStateException(
          "[USER_RAISED_EXCEPTION] [hive-acid CorruptTableError] " + uri + " has a footer that says " + rows
              + " rows, its stripes say " + stored + " and its statistics " + counted
              + ": the file is damaged, and rows would be missing or counted wrongly; restore it [end hive-acid]");
    }
  }
}
