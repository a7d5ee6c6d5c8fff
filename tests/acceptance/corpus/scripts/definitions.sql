-- CREATE, ALTER, views, SHOW and DESCRIBE, with rows among them.

-- name: a table
CREATE TABLE IF NOT EXISTS books (id INT COMMENT 'key', title STRING, year SMALLINT) COMMENT 'all books' STORED AS ORC;

-- name: made again, it stays
CREATE TABLE IF NOT EXISTS books (other STRING) STORED AS ORC;

-- name: and without IF NOT EXISTS it is refused
-- refused: exists
CREATE TABLE books (id INT) STORED AS ORC;

-- name: some rows
INSERT INTO books VALUES (1, 'Emma', 1815), (2, 'Ulysses', 1922), (3, NULL, NULL);

-- name: a table of a query
CREATE TABLE old_books STORED AS ORC AS SELECT id, upper(title) AS title, year + 0 AS year FROM books WHERE year < 1900;

-- name: with partitions
CREATE TABLE by_century PARTITIONED BY (century) STORED AS ORC AS SELECT id, title, CAST(year / 100 AS INT) + 1 AS century FROM books WHERE year IS NOT NULL;

-- name: which are read
SELECT century, count(*) AS n FROM by_century GROUP BY century;

-- name: a table of a join and a window
CREATE TABLE ranked STORED AS ORC AS SELECT b.id, o.title, row_number() OVER (ORDER BY b.id DESC) AS place FROM books b LEFT JOIN old_books o ON b.id = o.id;

-- name: like another
CREATE TABLE more_books LIKE books;

-- name: and filled
INSERT INTO more_books SELECT id + 10, title, year FROM books;

-- name: a column more
ALTER TABLE books ADD COLUMNS (price DECIMAL(10,2), pages INT COMMENT 'without the cover');

-- name: old rows have NULL there
INSERT INTO books VALUES (4, 'Momo', 1973, 9.99, 300);

-- name: it can be set
-- becomes books: SELECT id, title, year, coalesce(price, 1), pages FROM books
UPDATE books SET price = 1 WHERE price IS NULL;

-- name: another name for a column
-- plain: CREATE TABLE renamed USING parquet AS SELECT id, title, year, price, pages AS leaves FROM books;
--   DROP TABLE books;
--   ALTER TABLE renamed RENAME TO books
ALTER TABLE books CHANGE COLUMN pages leaves INT COMMENT 'two pages each';

-- name: a wider type
-- plain: CREATE TABLE wider USING parquet AS SELECT CAST(id AS BIGINT) AS id, title, year, price, leaves FROM books;
--   DROP TABLE books;
--   ALTER TABLE wider RENAME TO books
ALTER TABLE books CHANGE COLUMN id id BIGINT;

-- name: a value that needed it
INSERT INTO books VALUES (5000000000, 'Big', 2024, NULL, NULL);

-- name: a column cannot be dropped
-- refused: columns of ACID files cannot be dropped
ALTER TABLE books DROP COLUMN price;

-- name: another name for a table
ALTER TABLE more_books RENAME TO other_books;

-- name: properties
ALTER TABLE other_books SET TBLPROPERTIES ('quality' = 'good', 'since' = '2024');

-- name: one of them is shown
-- plain: SELECT 'quality' AS prpt_name, 'good' AS prpt_value
SHOW TBLPROPERTIES other_books ('quality');

-- name: and taken away
ALTER TABLE other_books UNSET TBLPROPERTIES ('since');

-- name: partitions are listed
-- plain: SELECT 'century=19' AS partition UNION ALL SELECT 'century=20'
SHOW PARTITIONS by_century;

-- name: one is added
ALTER TABLE by_century ADD IF NOT EXISTS PARTITION (century = 21);

-- name: and listed by a pattern of values
-- plain: SELECT 'century=21' AS partition
SHOW PARTITIONS by_century PARTITION (century = 21);

-- name: one is renamed with its rows
-- becomes by_century: SELECT id, title, if(century = 19, 9, century) FROM by_century
ALTER TABLE by_century PARTITION (century = 19) RENAME TO PARTITION (century = 9);

-- name: one is dropped with its rows
-- becomes by_century: SELECT * FROM by_century WHERE century <> 20
ALTER TABLE by_century DROP IF EXISTS PARTITION (century = 20);

-- name: one that is not there
-- refused: has no partition (century='77')
ALTER TABLE by_century DROP PARTITION (century = 77);

-- name: tables are listed
-- plain: SELECT 'books' AS tab_name UNION ALL SELECT 'old_books' UNION ALL SELECT 'other_books'
SHOW TABLES LIKE '*books';

-- name: columns are listed
-- plain: SELECT 'id' AS field UNION ALL SELECT 'title' UNION ALL SELECT 'year'
SHOW COLUMNS IN other_books;

-- name: a table is described
-- plain: SELECT * FROM VALUES ('id', 'int', 'key'), ('title', 'string', ''), ('year', 'smallint', '') AS d (col_name, data_type, comment)
DESCRIBE other_books;

-- name: a view
CREATE VIEW recent AS SELECT id, title FROM books WHERE year > 1900;

-- name: which is read with other tables
SELECT r.title, o.id FROM recent r LEFT JOIN other_books o ON o.title = r.title;

-- name: a view with names and an order
CREATE OR REPLACE VIEW recent (key, label) AS SELECT id, upper(title) AS up FROM books WHERE year > 1900 ORDER BY id;

-- name: a view over a view
CREATE VIEW counted AS SELECT count(*) AS n, max(label) AS last FROM recent;

-- name: sees what is inserted
INSERT INTO books (id, title, year) VALUES (6, 'Zorro', 1919);

-- name: through both
SELECT * FROM counted;

-- name: another query for it
ALTER VIEW counted AS SELECT count(*) AS n FROM recent WHERE key < 6;

-- name: views are listed
-- plain: SELECT 'counted' AS tab_name UNION ALL SELECT 'recent'
SHOW VIEWS;

-- name: rows of a view become rows of a table
INSERT INTO other_books (id, title) SELECT key, label FROM recent WHERE key < 100;

-- name: a view goes
DROP VIEW counted;

-- name: and is not there any more
-- refused: counted
SELECT n FROM counted;

-- name: a view of this session
CREATE TEMPORARY VIEW few AS SELECT id FROM books WHERE id < 3;

-- name: is read
SELECT o.id FROM old_books o JOIN few f ON o.id = f.id;

-- name: a table that is not there
-- refused: boks
SELECT * FROM boks;

-- name: a column that is not there
-- refused: titel
SELECT titel FROM books;

-- name: a query of itself
-- refused: WITH RECURSIVE is not supported: neither Hive nor every Spark that this runs on has it
WITH RECURSIVE up AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM up WHERE n < 5) SELECT * FROM up;

-- name: a table goes
DROP TABLE ranked;

-- name: and once more
DROP TABLE IF EXISTS ranked;

-- name: minor compaction keeps the rows
-- becomes books: SELECT * FROM books
ALTER TABLE books COMPACT 'minor' AND WAIT;
