package hiveacid.versions;

import java.util.ArrayList;
import java.util.List;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Lists as Scala's sequences, which are immutable since 2.13. */
public final class Sequences {
  private Sequences() {}

  public static <T> Seq<T> of(List<T> items) {
    return CollectionConverters.asScala(items).toSeq();
  }

  public static <T> List<T> list(scala.collection.Seq<T> items) {
    return new ArrayList<>(CollectionConverters.asJava(items));
  }
}
