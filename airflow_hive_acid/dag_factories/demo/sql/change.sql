-- All of this is one transaction over two tables: it is seen as a whole or not at all.
CREATE TEMPORARY VIEW corrections (
  change STRING, year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT,
  sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
  air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP
)
USING csv
OPTIONS (path {{ (params.directory ~ '/corrections.csv') | sql_literal }}, header 'true', nullValue 'NA');

-- A month is restated: flights arrived at another time, were withdrawn, or were reported late.
MERGE INTO demo.flights AS f
USING corrections AS c
ON f.month = {{ params.restated_month }} AND f.time_hour = c.time_hour AND f.carrier = c.carrier AND f.flight = c.flight
WHEN MATCHED AND c.change = 'withdrawn' THEN DELETE
WHEN MATCHED THEN UPDATE SET arr_delay = c.arr_delay, air_time = c.air_time
WHEN NOT MATCHED THEN INSERT VALUES (
  c.year, c.day, c.dep_time, c.sched_dep_time, c.dep_delay, c.arr_time, c.sched_arr_time, c.arr_delay, c.carrier,
  c.flight, c.tailnum, c.origin, c.dest, c.air_time, c.distance, c.hour, c.minute, c.time_hour, c.month
);

-- A slowly changing dimension: the airline's row is closed, and a new one says how it is called from now on.
UPDATE demo.airlines SET valid_to = DATE '{{ params.renamed_on }}', is_current = false
WHERE carrier = '{{ params.renamed_carrier }}' AND is_current;

INSERT INTO demo.airlines VALUES
  ('{{ params.renamed_carrier }}', '{{ params.renamed_to }}', DATE '{{ params.renamed_on }}', NULL, true);

-- A request to be forgotten.
DELETE FROM demo.flights WHERE carrier = '{{ params.forgotten_carrier }}';
