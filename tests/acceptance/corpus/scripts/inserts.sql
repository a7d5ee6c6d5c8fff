-- INSERT in all its spellings.

-- name: a table of each type
CREATE TABLE types (b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(20,4), c CHAR(5), v VARCHAR(5), x STRING, y DATE, z TIMESTAMP, raw BINARY) STORED AS ORC;

-- name: values of each type
INSERT INTO types VALUES (true, 1, 2, 3, 4, 1.5, 2.5, 12.3456, 'ab', 'abc', 'text', DATE '2024-02-29', TIMESTAMP '2024-02-29 12:34:56.789', unhex('00FF'));

-- name: NULLs of each type
INSERT INTO types VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- name: the least and the greatest
INSERT INTO types VALUES (false, -128, -32768, -2147483648, -9223372036854775808, -1e38, -1e308, -9999999999999999.9999, '', '', '', DATE '0001-01-01', TIMESTAMP '1969-12-31 23:59:59', CAST('' AS BINARY)),
  (true, 127, 32767, 2147483647, 9223372036854775807, 1e38, 1e308, 9999999999999999.9999, 'äöüß€', 'äöüß€', 'line
break	tab', DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59.999999', CAST('€' AS BINARY));

-- name: values that fit after a cast
INSERT INTO types (i, l, d, m, x) SELECT 7, 8, 9, 10, 11;

-- name: a number that does not fit
-- refused: the value '1000' is no tinyint
INSERT INTO types (t) SELECT 1000;

-- name: a text that is no number
-- refused: the value 'x' is no int
INSERT INTO types (i) SELECT id FROM VALUES ('x') AS v (id);

-- name: a text that is too long
-- refused: is longer than 5 characters
INSERT INTO types (v) VALUES ('much too long');

-- name: days, partitioned
CREATE TABLE days (id INT, name STRING, amount DECIMAL(10,2)) PARTITIONED BY (day DATE, hour INT) STORED AS ORC;

-- name: into a static partition
INSERT INTO days PARTITION (day = '2024-05-01', hour = 8) VALUES (1, 'one', 1.10), (2, 'two', 2.20);

-- name: into a static and a dynamic one
INSERT INTO days PARTITION (day = '2024-05-01', hour) SELECT id + 2, name, amount, hour + id FROM days;

-- name: into dynamic partitions
INSERT INTO days PARTITION (day, hour) SELECT id + 10, name, amount * 2, date_add(day, id % 2), hour FROM days;

-- name: without the word PARTITION
INSERT INTO TABLE days SELECT 50, 'fifty', 50, DATE '2024-05-05', 0;

-- name: some columns, and the partition's among them
INSERT INTO days (hour, id, day) VALUES (3, 60, DATE '2024-05-06');

-- name: a partition whose value is NULL
INSERT INTO days VALUES (70, 'no day', 7, NULL, 1);

-- name: rows of a CTE
WITH more AS (SELECT 80 AS id UNION ALL SELECT 81) INSERT INTO days SELECT id, concat('n', id), id / 10, DATE '2024-05-08', 8 FROM more;

-- name: by name
INSERT INTO days BY NAME SELECT 9 AS hour, DATE '2024-05-09' AS day, 90 AS id;

-- name: from first
-- plain: INSERT INTO days SELECT id + 100, name, amount, day, hour FROM days WHERE id < 3
FROM days INSERT INTO days SELECT id + 100, name, amount, day, hour WHERE id < 3;

-- name: a partition with its rows in another order is read by its own name
SELECT id, amount FROM days WHERE day = '2024-05-01' AND hour BETWEEN 8 AND 12;

-- name: one partition is overwritten
-- becomes days: SELECT * FROM days WHERE NOT (day <=> DATE '2024-05-01' AND hour = 8) UNION ALL SELECT 1, 'new', 0, DATE '2024-05-01', 8
INSERT OVERWRITE TABLE days PARTITION (day = '2024-05-01', hour = 8) VALUES (1, 'new', 0);

-- name: the partitions that come are overwritten, others stay
-- becomes days: SELECT * FROM days WHERE NOT (day <=> DATE '2024-05-08') UNION ALL SELECT 82, 'over', 8.2, DATE '2024-05-08', 8
INSERT OVERWRITE TABLE days PARTITION (day, hour) SELECT 82, 'over', 8.2, DATE '2024-05-08', 8;

-- name: a copy
CREATE TABLE copied (id INT, name STRING) STORED AS ORC;

-- name: filled by an overwrite
INSERT OVERWRITE TABLE copied SELECT id, name FROM days WHERE id < 5;

-- name: overwritten by what it holds
-- becomes copied: SELECT id * 10, upper(name) FROM copied
INSERT OVERWRITE TABLE copied SELECT id * 10, upper(name) FROM copied;

-- name: doubled by itself
INSERT INTO copied SELECT * FROM copied;

-- name: an overwrite with nothing
-- becomes copied: SELECT * FROM copied WHERE false
INSERT OVERWRITE TABLE copied SELECT id, name FROM days WHERE id < 0;

-- name: two tables from one scan
-- plain: INSERT INTO copied SELECT id, name FROM days WHERE id > 50;
--   INSERT INTO types (i, x) SELECT id, name FROM days WHERE id = 1
FROM days INSERT INTO copied SELECT id, name WHERE id > 50 INSERT INTO types (i, x) SELECT id, name WHERE id = 1;

-- name: nested values
CREATE TABLE nested (id INT, a ARRAY<INT>, m MAP<STRING, DOUBLE>, s STRUCT<x: INT, y: ARRAY<STRUCT<k: STRING, v: DATE>>>) STORED AS ORC;

-- name: rows of them
INSERT INTO nested SELECT 1, array(1, NULL, 3), map('a', 1.5D, 'b', NULL), named_struct('x', 1, 'y', array(named_struct('k', 'p', 'v', DATE '2024-01-01')));

-- name: empty and NULL ones
INSERT INTO nested VALUES (2, array(), map(), named_struct('x', NULL, 'y', array())), (3, NULL, NULL, NULL);

-- name: and read in their parts
SELECT id, a[0] AS first, m['a'] AS ma, s.x, s.y[0].v AS v FROM nested WHERE size(a) > 0;
