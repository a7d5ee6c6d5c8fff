package hiveacid.read;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** What tasks have to know about a scan: the table's row, its output columns, and which write ids are seen. */
final class ScanSpec implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Where an output column comes from. */
  enum Source {
    /** A field of {@code row}, by position in the table. */
    COLUMN,
    /** {@code row} as a whole. */
    ROW,
    /** One of the five columns before {@code row}, by position in the file. */
    HEADER,
    /** The ordinal of the file's partition. */
    ORDINAL,
    /** A partition column, by position. */
    VALUE
  }

  /** An output column; {@code type} may be a part of the table's own after nested pruning. */
  record Output(String name, DataType type, Source source, int index) implements Serializable {}

  final String id;
  final String table;
  final StructType row;
  final List<Output> outputs;
  final int operation;
  /** Whether the rows are those that delete events name, instead of all others. */
  final boolean deletedOnly;
  /** Rows that a later write id has made are left out. */
  final long madeUpTo;
  private final long highWatermark;
  private final long[] exceptions;

  ScanSpec(String id, JsonNode document) {
    this.id = id;
    table = document.get("table").asText();
    row = (StructType) DataType.fromJson(document.get("row").toString());
    operation = document.get("operation").asInt();
    deletedOnly = document.get("deleted_only").asBoolean();
    madeUpTo = document.get("made_up_to").asLong();
    highWatermark = document.get("high_watermark").asLong();
    JsonNode hidden = document.get("exceptions");
    exceptions = new long[hidden.size()];
    for (int i = 0; i < exceptions.length; i++) {
      exceptions[i] = hidden.get(i).asLong();
    }
    Arrays.sort(exceptions);
    outputs = new ArrayList<>();
    for (JsonNode output : document.get("outputs")) {
      outputs.add(
          new Output(
              output.get("name").asText(),
              DataType.fromJson(output.get("type").toString()),
              Source.valueOf(output.get("source").asText()),
              output.get("index").asInt()));
    }
  }

  /** The columns of the relation. */
  StructType schema() {
    StructType schema = new StructType();
    for (Output output : outputs) {
      schema = schema.add(output.name(), output.type(), true);
    }
    return schema;
  }

  /** The outputs that a pruned schema still has, in its order and with its types. */
  List<Output> required(StructType pruned) {
    List<Output> found = new ArrayList<>();
    for (var field : pruned.fields()) {
      Output output = output(field.name());
      found.add(new Output(output.name(), field.dataType(), output.source(), output.index()));
    }
    return found;
  }

  Output output(String name) {
    for (Output output : outputs) {
      if (output.name().equals(name)) {
        return output;
      }
    }
    throw new IllegalArgumentException("no output column " + name + " in " + table);
  }

  /** Whether all rows that the snapshot sees are wanted, deleted ones apart. */
  boolean isWhole() {
    return !deletedOnly && madeUpTo == Long.MAX_VALUE;
  }

  /** Whether the snapshot sees what this write id did. */
  boolean sees(long writeId) {
    return writeId <= highWatermark && Arrays.binarySearch(exceptions, writeId) < 0;
  }
}
