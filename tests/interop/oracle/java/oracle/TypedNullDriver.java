package oracle;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.SQLException;
import java.util.Collections;
import java.util.Properties;
import java.util.logging.Logger;

/**
 * PostgreSQL's JDBC driver with one cast added to one statement of Hive's.
 *
 * <p>When the Cleaner has removed the files of an unpartitioned table, Hive 4.1.0 binds an untyped NULL in "(:partition is
 * NULL OR ...)", which PostgreSQL refuses ("could not determine data type of parameter"): the queue row stays "ready for
 * cleaning" for ever and the next compaction of the table is refused. Everything else goes to the driver as it is.
 */
public final class TypedNullDriver implements Driver {
  private static final String UNTYPED = "(? is NULL OR";
  private static final String TYPED = "(cast(? as varchar) is NULL OR";
  private final Driver postgresql = new org.postgresql.Driver();

  static void install() throws SQLException {
    for (Driver driver : Collections.list(DriverManager.getDrivers())) {
      if (driver instanceof org.postgresql.Driver) {
        DriverManager.deregisterDriver(driver);
      }
    }
    DriverManager.registerDriver(new TypedNullDriver());
  }

  @Override
  public Connection connect(String url, Properties info) throws SQLException {
    Connection connection = postgresql.connect(url, info);
    if (connection == null) {
      return null;
    }
    return (Connection) Proxy.newProxyInstance(TypedNullDriver.class.getClassLoader(), new Class<?>[] {Connection.class},
        (proxy, method, arguments) -> {
          if (method.getName().equals("prepareStatement") && arguments[0] instanceof String) {
            arguments[0] = ((String) arguments[0]).replace(UNTYPED, TYPED);
          }
          try {
            return method.invoke(connection, arguments);
          } catch (InvocationTargetException e) {
            throw e.getCause();
          }
        });
  }

  @Override
  public boolean acceptsURL(String url) throws SQLException {
    return postgresql.acceptsURL(url);
  }

  @Override
  public DriverPropertyInfo[] getPropertyInfo(String url, Properties info) throws SQLException {
    return postgresql.getPropertyInfo(url, info);
  }

  @Override
  public int getMajorVersion() {
    return postgresql.getMajorVersion();
  }

  @Override
  public int getMinorVersion() {
    return postgresql.getMinorVersion();
  }

  @Override
  public boolean jdbcCompliant() {
    return postgresql.jdbcCompliant();
  }

  @Override
  public Logger getParentLogger() {
    return Logger.getLogger("org.postgresql");
  }
}
