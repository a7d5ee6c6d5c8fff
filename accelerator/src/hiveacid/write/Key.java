package hiveacid.write;

import java.io.Serializable;

/** What identifies a row: the write id that created it, the value of its {@code bucket} column, its number. */
public record Key(long writeId, int bucket, long number) implements Comparable<Key>, Serializable {
  @Override
  public int compareTo(Key other) {
    return AcidFile.compare(writeId, bucket, number, other.writeId, other.bucket, other.number);
  }

  @Override
  public String toString() {
    return "(" + writeId + ", " + bucket + ", " + number + ")";
  }
}
