-- The tables of the everyday queries. Several deltas and deletes lie among the rows.

-- name: items, with values of nested types
CREATE TABLE items (id INT, name STRING, kind STRING, price DECIMAL(10,2), weight DOUBLE, since DATE, tags ARRAY<STRING>,
  sizes MAP<STRING, INT>, maker STRUCT<name: STRING, city: STRING>) STORED AS ORC;

-- name: items to begin with
INSERT INTO items VALUES
  (1, 'tea', 'drink', 3.50, 0.25, DATE '2023-01-15', array('hot', 'green'), map('small', 10, 'large', 4), named_struct('name', 'Assam', 'city', 'Jorhat')),
  (2, 'jam', 'food', 4.20, 0.5, DATE '2023-02-01', array('sweet'), map('small', 7), named_struct('name', 'Berry', 'city', 'Ulm')),
  (3, 'bread', 'food', NULL, 1.0, DATE '2023-02-28', array(), map(), NULL),
  (4, 'salt', 'spice', 0.99, 0.75, NULL, NULL, NULL, named_struct('name', 'Sea', 'city', NULL)),
  (5, 'oil', 'food', 8.00, 1.5, DATE '2024-02-29', array('green', NULL), map('large', NULL), named_struct('name', 'Olive', 'city', 'Bari')),
  (6, 'honey', 'food', 7.77, 0.4, DATE '2024-03-31', array('sweet', 'gold'), map('small', 1), named_struct('name', 'Bee', 'city', 'Ulm')),
  (90, 'wrong', 'none', 1.00, 1.0, NULL, NULL, NULL, NULL);

-- name: more items
INSERT INTO items VALUES
  (7, 'coffee', 'drink', 11.00, 0.5, DATE '2024-12-31', array('hot', 'black'), map('small', 3, 'large', 2), named_struct('name', 'Kaffa', 'city', 'Jimma')),
  (8, 'pepper', 'spice', 5.55, 0.1, DATE '2025-01-01', array('hot'), map('small', 9), named_struct('name', 'Malabar', 'city', 'Kochi')),
  (9, 'Äpfel', 'fruit', 2.10, 1.0, DATE '2025-06-15', array('sweet', 'green'), map('large', 5), named_struct('name', 'Hof', 'city', 'Jork')),
  (10, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- name: a price of an item is put right
-- becomes items: SELECT id, name, kind, if(id = 8, price + 1, price), weight, since, tags, sizes, maker FROM items
UPDATE items SET price = price + 1 WHERE id = 8;

-- name: an item that never was goes
-- becomes items: SELECT * FROM items WHERE id <> 90
DELETE FROM items WHERE id = 90;

-- name: people in buckets, with a tree of bosses
CREATE TABLE people (id INT, name STRING, city STRING, born DATE, boss INT, active BOOLEAN) CLUSTERED BY (id) INTO 4 BUCKETS STORED AS ORC;

-- name: people to begin with
INSERT INTO people VALUES
  (1, 'Ann', 'Ulm', DATE '1960-05-01', NULL, true), (2, 'Bob', 'Bari', DATE '1971-12-24', 1, true),
  (3, 'Cid', 'Ulm', DATE '1985-02-28', 1, false), (4, 'Dee', NULL, DATE '1990-07-07', 2, true),
  (5, 'Eve', 'Jork', NULL, 2, NULL), (99, 'nobody', 'nowhere', NULL, NULL, false);

-- name: more people
INSERT INTO people VALUES (6, 'Fay', 'Bari', DATE '1999-09-09', 3, true), (7, 'Gus', 'Kochi', DATE '2001-01-01', 3, false),
  (8, 'Hal', 'Ulm', DATE '1985-02-28', 7, true), (98, 'nobody', 'nowhere', NULL, NULL, false);

-- name: nobody goes
-- becomes people: SELECT * FROM people WHERE id < 90
DELETE FROM people WHERE name = 'nobody';

-- name: sales by day
CREATE TABLE sales (id BIGINT, item INT, person INT, number INT, at TIMESTAMP) PARTITIONED BY (day DATE) STORED AS ORC;

-- name: sales to begin with
INSERT INTO sales VALUES
  (1, 1, 2, 3, TIMESTAMP '2024-05-01 08:00:00', DATE '2024-05-01'), (2, 2, 2, 1, TIMESTAMP '2024-05-01 09:30:15.25', DATE '2024-05-01'),
  (3, 1, 3, 7, TIMESTAMP '2024-05-01 23:59:59.999999', DATE '2024-05-01'), (4, 5, 4, 2, TIMESTAMP '2024-05-02 00:00:00', DATE '2024-05-02'),
  (5, 6, 4, 5, TIMESTAMP '2024-05-02 12:00:00', DATE '2024-05-02'), (6, 6, 8, 5, TIMESTAMP '2024-05-02 12:00:00', DATE '2024-05-02'),
  (7, 77, 5, 1, TIMESTAMP '2024-05-03 18:45:00', DATE '2024-05-03');

-- name: more sales, into each day
INSERT INTO sales SELECT id + 10, item % 6 + 2, if(person = 8, NULL, person + 1), number * 2, at + INTERVAL '90' MINUTE, day FROM sales;

-- name: one sale was cancelled
-- becomes sales: SELECT * FROM sales WHERE id <> 13
DELETE FROM sales WHERE id = 13 AND day = '2024-05-01';

-- name: one sale was larger
-- becomes sales: SELECT id, item, person, if(id = 5, number + 1, number), at, day FROM sales
UPDATE sales SET number = number + 1 WHERE id = 5;

-- name: notes that can only be added
CREATE TABLE notes (id INT, text STRING) STORED AS PARQUET
  TBLPROPERTIES ('transactional' = 'true', 'transactional_properties' = 'insert_only');

-- name: notes to begin with
INSERT INTO notes VALUES (1, 'the first note'), (2, 'a second, longer note'), (3, ''), (4, NULL);

-- name: one note more
INSERT INTO notes VALUES (5, 'Quotes: it''s "so"; and a semicolon');
