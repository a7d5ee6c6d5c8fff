/** Compacts buckets from ORC's vectors to ORC's vectors, large ones range by range. */
package hiveacid.compact;
