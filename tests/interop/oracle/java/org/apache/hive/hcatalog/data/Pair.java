package org.apache.hive.hcatalog.data;

/**
 * What the notification listener needs of hive-hcatalog-core, which is not published for Hive 4: two values, under the names
 * that its class file refers to.
 */
public final class Pair<T, U> {
  public final T first;
  public final U second;

  public Pair(T first, U second) {
    this.first = first;
    this.second = second;
  }
}
