package hiveacid.write;

import com.esotericsoftware.kryo.DefaultSerializer;
import com.esotericsoftware.kryo.serializers.JavaSerializer;
import com.fasterxml.jackson.databind.ObjectMapper;
import hiveacid.versions.Sessions;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.StripeInformation;
import org.apache.orc.StripeStatistics;
import org.apache.orc.Writer;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * Makes one file of files that several tasks wrote for one bucket: a directory holds one file of a bucket, sorted by key.
 * Stripes are copied as they are, statistics and Hive's entries of the footer are those of all together.
 */
public final class Stitching implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper JSON = new ObjectMapper();
  private final Layout layout;

  /** Files of a bucket, in the order of their rows. */
  @DefaultSerializer(JavaSerializer.class)
  private record Ranges(ArrayList<Written.Part> parts, String upload) implements Serializable {}

  /**
   * What to do.
   *
   * @param directory for the files of the buckets
   * @param row data columns of the table, as Spark's JSON
   * @param parts see {@link #ofBuckets}, as {@code uploads}
   */
  public record Spec(
      String directory,
      String row,
      Map<String, String> options,
      List<Written.Part> parts,
      Map<Integer, String> uploads) {}

  private Stitching(Layout layout) {
    this.layout = layout;
  }

  /** Make the file of each bucket, given and answered as JSON: a {@link Spec}, and the files. */
  public static String run(SparkSession session, String text) throws IOException {
    Spec spec = JSON.readValue(text, Spec.class);
    StructType row = (StructType) DataType.fromJson(spec.row());
    Layout layout = new Layout(spec.directory(), row, Sessions.hadoopConf(session), spec.options());
    JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
    return Written.json(ofBuckets(context, layout, spec.parts(), spec.uploads()));
  }

  /**
   * One file for each bucket.
   *
   * @param parts files of one directory; those of a bucket follow each other in the order of their rows
   * @param uploads final names of the buckets' files, under which they are uploaded; null for one that goes to staging
   */
  public static List<Written.Part> ofBuckets(
      JavaSparkContext context, Layout layout, List<Written.Part> parts, Map<Integer, String> uploads)
      throws IOException {
    Map<Integer, ArrayList<Written.Part>> buckets = new TreeMap<>();
    for (Written.Part part : parts) {
      buckets.computeIfAbsent(part.bucket(), bucket -> new ArrayList<>()).add(part);
    }
    List<Written.Part> whole = new ArrayList<>();
    List<Ranges> several = new ArrayList<>();
    for (ArrayList<Written.Part> bucket : buckets.values()) {
      Written.Part first = bucket.get(0);
      String upload = uploads.get(first.bucket());
      // Of a bucket that was divided one range may have all its rows: that file lies in staging as well.
      if (bucket.size() == 1 && (upload == null || !first.upload().isEmpty())) {
        whole.add(first);
      } else {
        several.add(new Ranges(bucket, upload));
      }
    }
    if (!several.isEmpty()) {
      Stitching stitching = new Stitching(layout);
      whole.addAll(context.parallelize(several, several.size()).map(stitching::task).collect());
      for (Ranges bucket : several) {
        for (Written.Part part : bucket.parts()) {
          layout.delete(part.file());
        }
      }
    }
    return whole;
  }

  private Written.Part task(Ranges bucket) throws IOException {
    TaskContext context = TaskContext.get();
    String name = "whole-" + context.partitionId() + "-" + context.taskAttemptId() + ".orc";
    Output output = layout.output(name, bucket.upload());
    try {
      return stitched(output, bucket.parts());
    } catch (IOException | RuntimeException failure) {
      output.discard();
      throw failure;
    }
  }

  private Written.Part stitched(Output output, List<Written.Part> parts) throws IOException {
    Path path = output.path();
    Written.Part first = parts.get(0);
    long rows = 0;
    StringBuilder keyIndex = new StringBuilder();
    try (Writer writer = OrcFile.createWriter(path, layout.options().fileSystem(output.files()))) {
      OrcUtils.addSparkVersionMetadata(writer);
      Written.Part before = null;
      for (Written.Part part : parts) {
        if (before != null && before.last().compareTo(part.first()) > 0) {
          throw Failures.of(
              "JobFailedError",
              path.getName() + ": row " + part.first() + " comes after row " + before.last() + "; nothing is published");
        }
        append(writer, part, keyIndex);
        rows += part.rows();
        before = part;
      }
      AcidFile.describe(writer, first.operation(), rows, keyIndex.toString());
      if (writer.getNumberOfRows() != rows) {
        throw Failures.of("JobFailedError", path + " has " + writer.getNumberOfRows() + " rows instead of " + rows);
      }
    }
    Key last = parts.get(parts.size() - 1).last();
    return new Written.Part(
        path.toString(), first.bucket(), first.operation(), rows, output.size(), first.keys(), first.first(), last,
        output.upload());
  }

  /** Append the stripes of a file, and what its footer says about their last keys. */
  private void append(Writer writer, Written.Part part, StringBuilder keyIndex) throws IOException {
    Path path = new Path(part.file());
    FileSystem files = path.getFileSystem(layout.conf());
    try (Reader reader = OrcFile.createReader(path, OrcFile.readerOptions(layout.conf()).filesystem(files));
        FSDataInputStream input = files.open(path)) {
      List<StripeInformation> stripes = reader.getStripes();
      List<StripeStatistics> statistics = reader.getVariantStripeStatistics(null);
      byte[] bytes = new byte[0];
      for (int i = 0; i < stripes.size(); i++) {
        StripeInformation stripe = stripes.get(i);
        int length = Math.toIntExact(stripe.getLength());
        bytes = bytes.length < length ? new byte[length] : bytes;
        input.readFully(stripe.getOffset(), bytes, 0, length);
        writer.appendStripe(bytes, 0, length, stripe, new StripeStatistics[] {statistics.get(i)});
      }
      keyIndex.append(AcidFile.keyIndexOf(reader));
    }
  }
}
