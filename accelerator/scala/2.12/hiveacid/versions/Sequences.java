package hiveacid.versions;

import java.util.ArrayList;
import java.util.List;
import scala.collection.JavaConverters;
import scala.collection.Seq;

/** Lists as Scala's sequences. */
public final class Sequences {
  private Sequences() {}

  public static <T> Seq<T> of(List<T> items) {
    return JavaConverters.asScalaBufferConverter(items).asScala().toSeq();
  }

  public static <T> List<T> list(Seq<T> items) {
    return new ArrayList<>(JavaConverters.seqAsJavaListConverter(items).asJava());
  }
}
