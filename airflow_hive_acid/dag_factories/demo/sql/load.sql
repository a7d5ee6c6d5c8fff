-- Three transactional tables, filled from CSV files. The number of deltas that makes the Initiator act is Hive's 10 by
-- default; here two changes are enough, so that the demo has something to compact.
CREATE DATABASE IF NOT EXISTS demo;

CREATE TABLE demo.flights (
  year INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, arr_delay INT,
  carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT, hour INT,
  minute INT, time_hour TIMESTAMP
)
PARTITIONED BY (month INT)
STORED AS ORC
TBLPROPERTIES (
  'transactional' = 'true',
  'compactorthreshold.hive.compactor.delta.num.threshold' = '1',
  'airflow_hive_acid.demo' = 'true'
);

CREATE TABLE demo.airlines (carrier STRING, name STRING, valid_from DATE, valid_to DATE, is_current BOOLEAN)
STORED AS ORC
TBLPROPERTIES ('transactional' = 'true', 'airflow_hive_acid.demo' = 'true');

CREATE TABLE demo.planes (
  tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT, speed INT,
  engine STRING
)
STORED AS ORC
TBLPROPERTIES ('transactional' = 'true', 'airflow_hive_acid.demo' = 'true');

CREATE TEMPORARY VIEW flights_csv (
  year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT,
  arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT,
  hour INT, minute INT, time_hour TIMESTAMP
)
USING csv
OPTIONS (path {{ (params.directory ~ '/flights.csv') | sql_literal }}, header 'true', nullValue 'NA');

CREATE TEMPORARY VIEW airlines_csv (carrier STRING, name STRING)
USING csv
OPTIONS (path {{ (params.directory ~ '/airlines.csv') | sql_literal }}, header 'true', nullValue 'NA');

CREATE TEMPORARY VIEW planes_csv (
  tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT, speed INT,
  engine STRING
)
USING csv
OPTIONS (path {{ (params.directory ~ '/planes.csv') | sql_literal }}, header 'true', nullValue 'NA');

-- The month decides the partition.
INSERT INTO demo.flights PARTITION (month)
SELECT year, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time, arr_delay, carrier, flight, tailnum,
       origin, dest, air_time, distance, hour, minute, time_hour, month
FROM flights_csv;

INSERT INTO demo.airlines
SELECT carrier, name, DATE '2013-01-01', CAST(NULL AS DATE), true FROM airlines_csv;

INSERT INTO demo.planes
SELECT tailnum, year, type, manufacturer, model, engines, seats, speed, engine FROM planes_csv;
