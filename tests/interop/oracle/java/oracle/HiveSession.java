package oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.common.ValidWriteIdList;
import org.apache.hadoop.hive.common.io.SessionStream;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.TableValidWriteIds;
import org.apache.hadoop.hive.metastore.txn.TxnCommonUtils;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.processors.CommandProcessor;
import org.apache.hadoop.hive.ql.processors.CommandProcessorFactory;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.CompactorThread;
import org.apache.hadoop.hive.ql.txn.compactor.Initiator;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/**
 * One client of Hive: its own thread (Hive keeps the session in a thread local), settings and transaction manager.
 *
 * <p>Two sessions run at the same time; within one, statements run in the order they came.
 */
final class HiveSession {
  /** Values arrive as Java objects instead of lines of text. */
  private static final String TYPED_ROWS = "org.apache.hadoop.hive.serde2.thrift.ThriftFormatter";
  private static final int NEWEST_PROTOCOL = 10;

  final ExecutorService thread = Executors.newSingleThreadExecutor();
  private final HiveConf conf;
  private SessionState state;
  private boolean inTransaction;

  HiveSession(HiveConf conf) {
    this.conf = conf;
    conf.set("list.sink.output.formatter", TYPED_ROWS);
    conf.setInt("list.sink.output.protocol", NEWEST_PROTOCOL);
  }

  /** Answer one request; called on {@link #thread} only. */
  JsonObject handle(JsonObject request) throws Exception {
    open();
    switch (request.get("do").getAsString()) {
      case "sql":
        return sql(request.get("sql").getAsString());
      case "transaction":
        return transaction(request.get("sql").getAsString());
      case "snapshot":
        return snapshot(request.getAsJsonArray("tables"));
      case "events":
        return new HiveEvents(conf).after(request.get("after").getAsLong());
      case "initiator":
        return cycle(new Initiator());
      case "worker":
        return cycle(new Worker());
      case "cleaner":
        return cycle(new Cleaner());
      case "housekeeping":
        return housekeeping();
      default:
        throw new IllegalArgumentException("unknown request " + request);
    }
  }

  void close() throws Exception {
    if (state != null) {
      state.close();
    }
  }

  private void open() throws Exception {
    if (state == null) {
      state = new SessionState(conf);
      state.out = new SessionStream(OutputStream.nullOutputStream());
      state.info = new SessionStream(System.err);
      state.err = new SessionStream(System.err);
      SessionState.start(state);
      state.initTxnMgr(conf);
    }
    SessionState.setCurrentSessionState(state);
  }

  private JsonObject sql(String text) throws Exception {
    CommandProcessor processor = CommandProcessorFactory.getForHiveCommand(text.split("\\s+"), conf);
    if (processor != null && !(processor instanceof IDriver)) {   // SET, RESET, ...
      processor.run(text.substring(text.split("\\s+")[0].length()).trim());
      return new JsonObject();
    }
    IDriver driver = DriverFactory.newDriver(conf);
    try {
      driver.run(text);
      JsonArray columns = new JsonArray();
      if (driver.getSchema() != null && driver.getSchema().getFieldSchemas() != null) {
        for (FieldSchema field : driver.getSchema().getFieldSchemas()) {
          columns.add(field.getName());
        }
      }
      JsonArray rows = new JsonArray();
      if (driver.getFetchTask() != null || (driver.getPlan() != null && driver.hasResultSet())) {
        List<Object> batch = new ArrayList<>();
        while (driver.getResults(batch)) {
          batch.forEach(row -> rows.add(row(row)));
          batch.clear();
        }
      }
      JsonObject answer = new JsonObject();
      answer.add("columns", columns);
      answer.add("rows", rows);
      return answer;
    } finally {
      if (!inTransaction) {   // closing a driver rolls an open transaction back
        driver.close();
        driver.destroy();
      }
    }
  }

  /** START TRANSACTION, COMMIT, ROLLBACK: complete in Hive, but refused outside Hive's own tests. */
  private JsonObject transaction(String text) throws Exception {
    boolean start = text.toLowerCase().startsWith("start");
    conf.set("hive.in.test", "true");
    inTransaction = true;
    try {
      return sql(text);
    } catch (Exception e) {
      start = false;
      throw e;
    } finally {
      inTransaction = start;
      conf.unset("hive.in.test");
    }
  }

  /** What a reader and a compactor that begin now see, in Hive's own words. */
  private JsonObject snapshot(JsonArray tables) throws Exception {
    List<String> names = new ArrayList<>();
    tables.forEach(name -> names.add(name.getAsString()));
    HiveMetaStoreClient client = new HiveMetaStoreClient(conf);
    try {
      JsonObject answer = new JsonObject();
      String txns = client.getValidTxns().toString();
      answer.addProperty("txns", txns);
      JsonObject reader = new JsonObject();
      JsonObject compactor = new JsonObject();
      for (TableValidWriteIds ids : client.getValidWriteIds(names, txns)) {
        ValidWriteIdList list = TxnCommonUtils.createValidReaderWriteIdList(ids);
        reader.addProperty(ids.getFullTableName(), list.writeToString());
        compactor.addProperty(ids.getFullTableName(), TxnUtils.createValidCompactWriteIdList(ids).writeToString());
      }
      answer.add("reader", reader);
      answer.add("compactor", compactor);
      return answer;
    } finally {
      client.close();
    }
  }

  /** One cycle of a compaction service, on a thread of its own as in the metastore server. */
  private JsonObject cycle(CompactorThread service) throws Exception {
    service.setConf(new HiveConf(conf));
    service.init(new AtomicBoolean(true));   // "stop": leave after the first cycle
    Throwable[] failure = new Throwable[1];
    Thread runner = new Thread(service, service.getClass().getSimpleName());
    runner.setUncaughtExceptionHandler((thread, e) -> failure[0] = e);
    runner.start();
    runner.join();
    if (failure[0] != null) {
      throw new IllegalStateException(failure[0]);
    }
    return new JsonObject();
  }

  private JsonObject housekeeping() throws Exception {
    TxnStore store = TxnUtils.getTxnStore(conf);
    store.performTimeOuts();
    store.cleanEmptyAbortedAndCommittedTxns();
    store.removeDuplicateCompletedTxnComponents();
    store.cleanTxnToWriteIdTable();
    store.performWriteSetGC();
    return new JsonObject();
  }

  /** A row is an array of values, or a line of tab-separated text when Hive answers from a file (SHOW ...). */
  private static JsonArray row(Object row) {
    Object[] values = row instanceof Object[] ? (Object[]) row : row.toString().split("\t", -1);
    JsonArray answer = new JsonArray();
    for (Object value : values) {
      answer.add(value(value));
    }
    return answer;
  }

  private static JsonElement value(Object value) {
    if (value == null) {
      return JsonNull.INSTANCE;
    }
    if (value instanceof Boolean) {
      return new JsonPrimitive((Boolean) value);
    }
    if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
      return new JsonPrimitive((Number) value);
    }
    if ((value instanceof Float || value instanceof Double) && Double.isFinite(((Number) value).doubleValue())) {
      return new JsonPrimitive((Number) value);
    }
    if (value instanceof byte[]) {
      StringBuilder hex = new StringBuilder("0x");
      for (byte b : (byte[]) value) {
        hex.append(String.format("%02x", b));
      }
      return new JsonPrimitive(hex.toString());
    }
    return new JsonPrimitive(value.toString());   // decimals, dates, timestamps; complex values as Hive's JSON
  }
}
