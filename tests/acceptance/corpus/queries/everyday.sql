-- What is typed every day, about the tables of the shop.

-- name: everything
SELECT * FROM items;

-- name: some columns under other names
SELECT id AS item_id, name AS `the name`, price * 1.19 AS gross FROM items;

-- name: the first rows in order
-- ordered
SELECT id, name FROM items ORDER BY price DESC NULLS LAST, id LIMIT 3;

-- name: a page further down
-- ordered
SELECT id, name FROM items ORDER BY id LIMIT 3 OFFSET 4;

-- name: distinct values
SELECT DISTINCT kind FROM items;

-- name: distinct pairs
SELECT DISTINCT city, active FROM people;

-- name: not equal leaves out NULL
SELECT id FROM items WHERE kind <> 'food';

-- name: NULL-safe equality
SELECT id FROM items WHERE kind <=> NULL;

-- name: is null or not
SELECT id, price IS NULL, price IS NOT NULL FROM items WHERE since IS NULL OR maker IS NULL;

-- name: between and in
SELECT id FROM items WHERE price BETWEEN 2 AND 8 AND kind IN ('food', 'fruit');

-- name: not in a list with NULL finds nothing
-- empty
SELECT id FROM items WHERE kind NOT IN ('food', NULL);

-- name: like with its wildcards
SELECT name FROM items WHERE name LIKE '_e%' OR name LIKE '%ey';

-- name: like with an escape
SELECT text FROM notes WHERE text LIKE '%it''s%' OR text LIKE '%\\%%' ;

-- name: like any
SELECT name FROM items WHERE name LIKE ANY ('t%', 's%');

-- name: regular expressions
SELECT name FROM items WHERE name RLIKE '^[a-j]' AND NOT name REGEXP 'a$';

-- name: no rows
-- empty
SELECT * FROM people WHERE id < 0;

-- name: count of no rows
SELECT count(*), sum(id), max(name) FROM people WHERE id < 0;

-- name: a constant
SELECT 1 AS one, 'two' AS two, NULL AS nothing, true AS yes, 1.50 AS price, 2.5e0 AS number;

-- name: values as a table
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v (id, letter);

-- name: a whole table by its name
TABLE people;

-- name: from first
FROM people SELECT name, city WHERE active;

-- name: partition columns
SELECT day, count(*) AS n FROM sales WHERE day >= '2024-05-02' GROUP BY day;

-- name: partition column and others
SELECT id FROM sales WHERE (day = DATE '2024-05-01' AND number > 2) OR (day = '2024-05-03' AND item = 77);

-- name: partition column in an expression
SELECT id FROM sales WHERE date_add(day, 1) = DATE '2024-05-03';

-- name: only the partition column
SELECT DISTINCT day FROM sales;

-- name: a bucketed table by its key
SELECT name FROM people WHERE id = 3 OR id = 7;

-- name: an insert-only table
SELECT id, length(text) AS n FROM notes WHERE text IS NOT NULL;

-- name: quotes and semicolons
SELECT id FROM notes WHERE text = 'Quotes: it''s "so"; and a semicolon';

-- name: comments in the text
SELECT /* in between */ id -- and at the end
FROM people -- all
WHERE id = 1;

-- name: hints
SELECT /*+ BROADCAST(p) */ s.id, p.name FROM sales s JOIN people p ON s.person = p.id;

-- name: inner join
SELECT s.id, i.name FROM sales s JOIN items i ON s.item = i.id;

-- name: join of three
SELECT s.id, i.name, p.name FROM sales s JOIN items i ON s.item = i.id JOIN people p ON p.id = s.person WHERE p.city = 'Bari';

-- name: left join
SELECT s.id, i.name FROM sales s LEFT JOIN items i ON s.item = i.id;

-- name: right join
SELECT s.id, i.name FROM sales s RIGHT OUTER JOIN items i ON s.item = i.id;

-- name: full join
SELECT s.id, i.id FROM sales s FULL OUTER JOIN items i ON s.item = i.id AND i.kind = 'food';

-- name: left semi join
SELECT i.name FROM items i LEFT SEMI JOIN sales s ON s.item = i.id;

-- name: left anti join
SELECT i.name FROM items i LEFT ANTI JOIN sales s ON s.item = i.id;

-- name: cross join
SELECT p.id, i.id FROM people p CROSS JOIN items i WHERE p.id <= 2 AND i.id <= 2;

-- name: join using
SELECT id, p.name, n.text FROM people p JOIN notes n USING (id);

-- name: natural join
SELECT * FROM (SELECT id, name FROM people) NATURAL JOIN (SELECT id, text FROM notes);

-- name: self join
SELECT p.name, b.name AS boss FROM people p LEFT JOIN people b ON p.boss = b.id;

-- name: join with inequality
SELECT a.id, b.id FROM people a JOIN people b ON a.born < b.born AND a.city = b.city;

-- name: comma join
SELECT p.name, i.name FROM people p, items i WHERE p.city = i.maker.city;

-- name: join on NULL-safe equality
SELECT a.id, b.id FROM people a JOIN people b ON a.city <=> b.city WHERE a.id < b.id;

-- name: lateral subquery
SELECT p.name, s.id FROM people p, LATERAL (SELECT id FROM sales WHERE person = p.id AND number > 2) s;

-- name: aggregates
SELECT count(*), count(price), count(DISTINCT kind), sum(price), avg(price), min(since), max(since) FROM items;

-- name: group by and having
SELECT kind, count(*) AS n, sum(price) AS total FROM items GROUP BY kind HAVING count(*) > 1;

-- name: group by position and order by alias
-- ordered
SELECT kind, count(*) AS n FROM items GROUP BY 1 ORDER BY n DESC, kind NULLS LAST;

-- name: group by all
SELECT kind, count(*) AS n FROM items GROUP BY ALL;

-- name: group by an expression
SELECT year(since) AS y, count(*) AS n FROM items GROUP BY year(since);

-- name: rollup
SELECT kind, year(since) AS y, count(*) AS n FROM items GROUP BY ROLLUP (kind, year(since));

-- name: Hive's with rollup
SELECT kind, count(*) AS n FROM items GROUP BY kind WITH ROLLUP;

-- name: cube
SELECT city, active, count(*) AS n FROM people GROUP BY CUBE (city, active);

-- name: grouping sets
SELECT city, active, count(*) AS n, grouping_id() AS g FROM people GROUP BY GROUPING SETS ((city), (active), ());

-- name: grouping
SELECT city, grouping(city) AS g, count(*) AS n FROM people GROUP BY city WITH CUBE;

-- name: filter of an aggregate
SELECT count(*) FILTER (WHERE active) AS a, sum(id) FILTER (WHERE city = 'Ulm') AS u FROM people;

-- name: sets of values
SELECT kind, sort_array(collect_set(name)) AS names FROM items GROUP BY kind;

-- name: lists in order
SELECT city, array_sort(collect_list(id)) AS ids FROM people GROUP BY city;

-- name: median and percentiles
SELECT percentile(number, 0.5) AS middle, percentile(number, array(0.25, 0.75)) AS quarters FROM sales;

-- name: deviation
SELECT stddev_pop(number) AS s, var_samp(number) AS v, corr(number, id) AS c FROM sales;

-- name: first by another column
SELECT kind, max_by(name, price) AS dearest, min_by(name, price) AS cheapest FROM items GROUP BY kind;

-- name: any and every
SELECT bool_or(active) AS some, bool_and(active) AS every FROM people;

-- name: approximate count
SELECT approx_count_distinct(item) AS n FROM sales;

-- name: pivot
SELECT * FROM (SELECT kind, year(since) AS y, price FROM items) PIVOT (sum(price) FOR y IN (2023, 2024, 2025));

-- name: unpivot
SELECT * FROM (SELECT id, CAST(price AS DOUBLE) AS price, weight FROM items WHERE id < 4) UNPIVOT (value FOR what IN (price, weight));

-- name: histogram by case
SELECT CASE WHEN price < 3 THEN 'low' WHEN price < 8 THEN 'middle' ELSE 'high or none' END AS class, count(*) AS n FROM items GROUP BY 1;

-- name: row number
-- plain: SELECT id, row_number() OVER (PARTITION BY kind ORDER BY price DESC NULLS FIRST, id) AS place FROM items
SELECT id, row_number() OVER (PARTITION BY kind ORDER BY price DESC, id) AS place FROM items;

-- name: ranks
SELECT id, rank() OVER (ORDER BY number) AS r, dense_rank() OVER (ORDER BY number) AS d, percent_rank() OVER (ORDER BY number) AS p FROM sales;

-- name: running sum
SELECT id, sum(number) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far FROM sales;

-- name: moving average
SELECT id, avg(number) OVER (PARTITION BY day ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS around FROM sales;

-- name: range of days
SELECT id, count(*) OVER (ORDER BY at RANGE BETWEEN INTERVAL '2' HOUR PRECEDING AND CURRENT ROW) AS n FROM sales;

-- name: lag and lead
SELECT id, lag(number) OVER (ORDER BY id) AS before, lead(number, 2, -1) OVER (ORDER BY id) AS later FROM sales;

-- name: first and last value
SELECT id, first_value(id) OVER w AS f, last_value(id) OVER w AS l FROM sales WINDOW w AS (PARTITION BY day ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);

-- name: ntile
SELECT id, ntile(3) OVER (ORDER BY id) AS third FROM people;

-- name: share of a total
SELECT id, number / sum(number) OVER (PARTITION BY day) AS share FROM sales;

-- name: best of each
SELECT * FROM (SELECT name, kind, row_number() OVER (PARTITION BY kind ORDER BY price DESC) AS place FROM items WHERE price IS NOT NULL) WHERE place = 1;

-- name: qualify by a subquery over aggregates
SELECT day, n, rank() OVER (ORDER BY n DESC) AS place FROM (SELECT day, count(*) AS n FROM sales GROUP BY day);

-- name: ignore nulls
SELECT id, last_value(person) IGNORE NULLS OVER (ORDER BY id) AS known FROM sales;

-- name: explode
SELECT id, tag FROM items LATERAL VIEW explode(tags) t AS tag;

-- name: explode outer
SELECT id, tag FROM items LATERAL VIEW OUTER explode(tags) t AS tag;

-- name: explode of a map
SELECT id, size, n FROM items LATERAL VIEW explode(sizes) s AS size, n;

-- name: positions
SELECT id, place, tag FROM items LATERAL VIEW posexplode(tags) t AS place, tag WHERE place > 0;

-- name: two lateral views
SELECT id, tag, size FROM items LATERAL VIEW explode(tags) t AS tag LATERAL VIEW explode(map_keys(sizes)) s AS size;

-- name: explode in the list
SELECT id, explode(tags) AS tag FROM items WHERE id < 3;

-- name: inline of structs
SELECT * FROM (SELECT array(named_struct('a', 1, 'b', 'x'), named_struct('a', 2, 'b', 'y')) AS rows) LATERAL VIEW inline(rows) r AS a, b;

-- name: stack
SELECT id, what, value FROM items LATERAL VIEW stack(2, 'id', id, 'ten', id * 10) s AS what, value;

-- name: words of texts
SELECT word, count(*) AS n FROM notes LATERAL VIEW explode(split(text, '[^a-z]+')) w AS word WHERE word <> '' GROUP BY word;

-- name: json tuple
SELECT a, b FROM (SELECT '{"a": 1, "b": "x"}' AS j) LATERAL VIEW json_tuple(j, 'a', 'b') t AS a, b;

-- name: union all
SELECT id FROM people UNION ALL SELECT id FROM items;

-- name: union
SELECT city FROM people UNION SELECT maker.city FROM items;

-- name: intersect
SELECT city FROM people INTERSECT SELECT maker.city FROM items;

-- name: except
SELECT id FROM items EXCEPT SELECT item FROM sales;

-- name: minus
SELECT id FROM items MINUS SELECT id FROM people;

-- name: except all
SELECT item FROM sales EXCEPT ALL SELECT id FROM items;

-- name: intersect all
SELECT item FROM sales INTERSECT ALL SELECT id FROM items;

-- name: sets in parentheses
-- ordered
(SELECT id FROM items WHERE id < 5 UNION SELECT 100) EXCEPT (SELECT 1 UNION SELECT 2) ORDER BY id;

-- name: order and limit over a union
-- ordered
SELECT name FROM people UNION ALL SELECT name FROM items WHERE name IS NOT NULL ORDER BY name LIMIT 5;

-- name: scalar subquery
SELECT id, price - (SELECT avg(price) FROM items) AS over FROM items WHERE price IS NOT NULL;

-- name: in a subquery
SELECT name FROM people WHERE id IN (SELECT person FROM sales WHERE number > 4);

-- name: not in a subquery with NULL
-- empty
SELECT name FROM people WHERE id NOT IN (SELECT person FROM sales);

-- name: exists, correlated
SELECT name FROM items i WHERE EXISTS (SELECT 1 FROM sales s WHERE s.item = i.id AND s.number > 4);

-- name: not exists
SELECT name FROM people p WHERE NOT EXISTS (SELECT 1 FROM people q WHERE q.boss = p.id);

-- name: correlated scalar
SELECT name, (SELECT max(number) FROM sales s WHERE s.item = i.id) AS most FROM items i;

-- name: above the average of its kind
SELECT name FROM items i WHERE price > (SELECT avg(price) FROM items j WHERE j.kind = i.kind);

-- name: subquery with two columns
SELECT id FROM sales WHERE (item, number) IN (SELECT item, max(number) FROM sales GROUP BY item);

-- name: CTE
WITH big AS (SELECT * FROM sales WHERE number > 3) SELECT day, count(*) AS n FROM big GROUP BY day;

-- name: CTE over a CTE
WITH a AS (SELECT item, sum(number) AS n FROM sales GROUP BY item), b AS (SELECT max(n) AS most FROM a) SELECT a.item FROM a JOIN b ON a.n = b.most;

-- name: CTE with names of columns
WITH n (key, label) AS (SELECT id, name FROM people) SELECT key FROM n WHERE label LIKE '%e%';

-- name: CTE that hides a table
WITH people AS (SELECT 1 AS id) SELECT * FROM people;

-- name: CTE in a subquery
SELECT * FROM (WITH x AS (SELECT id FROM people WHERE active) SELECT count(*) AS n FROM x);

-- name: derived table with names
SELECT k, v FROM (SELECT id, name FROM people WHERE id < 3) AS d (k, v);

-- name: any and all of a list
SELECT id FROM items WHERE exists(tags, t -> t = 'green') OR forall(tags, t -> t = 'hot');

-- name: casts
SELECT CAST('12' AS INT), CAST(3.7 AS INT), CAST(id AS STRING), CAST(price AS DOUBLE), CAST('2024-02-29' AS DATE) FROM items WHERE id = 1;

-- name: two colons
SELECT id::string AS s, '7'::int + 1 AS n, '1.5'::decimal(5,2) AS d FROM people WHERE id = 1;

-- name: try_cast
SELECT try_cast('x' AS INT) AS a, try_cast(name AS INT) AS b, try_cast('5' AS TINYINT) AS c FROM people WHERE id = 1;

-- name: decimals
SELECT price * price AS p, price / 3 AS q, round(price, 1) AS r, CAST(price AS DECIMAL(20,6)) AS c FROM items;

-- name: integer arithmetic
SELECT id / 2 AS q, id DIV 2 AS d, id % 3 AS m, -id AS n, pmod(-id, 3) AS p, id & 1 AS b FROM items;

-- name: floats
SELECT weight * 3 AS w, sqrt(weight) AS r, ln(weight) AS l, CAST('NaN' AS DOUBLE) AS nan, CAST('Infinity' AS DOUBLE) AS inf FROM items WHERE weight IS NOT NULL;

-- name: booleans
SELECT active AND id > 3 AS a, active OR NULL AS o, NOT active AS n, CAST(active AS INT) AS i FROM people;

-- name: parts of dates
SELECT year(since), month(since), dayofmonth(since), quarter(since), weekofyear(since), dayofweek(since), dayofyear(since) FROM items;

-- name: extract
SELECT EXTRACT(YEAR FROM at) AS y, EXTRACT(HOUR FROM at) AS h, EXTRACT(MINUTE FROM at) AS m, EXTRACT(SECOND FROM at) AS s FROM sales;

-- name: date arithmetic
SELECT date_add(since, 30), date_sub(since, 1), since + INTERVAL '1' MONTH, datediff(DATE '2025-01-01', since), add_months(since, 1), last_day(since) FROM items;

-- name: trunc and next day
SELECT trunc(since, 'MM'), trunc(since, 'YEAR'), next_day(since, 'MO'), months_between(DATE '2025-03-31', since) FROM items;

-- name: timestamps
SELECT at, date_trunc('HOUR', at) AS h, CAST(at AS DATE) AS d, unix_timestamp(at) AS u, at + INTERVAL '1 02:03:04' DAY TO SECOND AS l FROM sales;

-- name: formats
SELECT date_format(at, 'yyyy/MM/dd HH:mm') AS a, to_date('31.12.2024', 'dd.MM.yyyy') AS b, to_timestamp('2024-05-01T10:20:30') AS c FROM sales WHERE id = 1;

-- name: from unix time
SELECT from_unixtime(0) AS a, to_unix_timestamp('1970-01-02 00:00:00') AS b, timestamp_seconds(1.5) AS c, from_utc_timestamp(TIMESTAMP '2024-07-01 12:00:00', 'Europe/Berlin') AS d;

-- name: differences of times
SELECT id, at - TIMESTAMP '2024-05-01 00:00:00' > INTERVAL '1' DAY AS later, timestampdiff(MINUTE, TIMESTAMP '2024-05-01 00:00:00', at) AS minutes FROM sales;

-- name: comparisons of a date and text
SELECT id FROM items WHERE since > '2024-01-01' AND since < '2025-01-02';

-- name: series of days
SELECT day FROM (SELECT explode(sequence(DATE '2024-05-01', DATE '2024-05-05', INTERVAL 1 DAY)) AS day) LEFT ANTI JOIN sales USING (day);

-- name: texts
SELECT upper(name), lower(name), initcap(name), length(name), reverse(name), trim('  x '), lpad(name, 8, '.'), repeat('ab', 2) FROM items;

-- name: parts of texts
SELECT substr(name, 2), substring(name, 1, 2), left(name, 1), right(name, 1), instr(name, 'e'), locate('a', name), split(name, 'e') FROM items;

-- name: replacements
SELECT replace(name, 'e', '3'), regexp_replace(name, '[aeiou]', '*'), translate(name, 'ae', '43'), regexp_extract(name, '(.)(.)', 2) FROM items;

-- name: concatenation
SELECT concat(name, ' ', kind), name || '/' || kind AS p, concat_ws('-', name, kind, NULL), format_string('%05d|%s', id, name) FROM items;

-- name: NULLs and choices
SELECT coalesce(name, kind, '?'), nvl(price, 0), nullif(kind, 'food'), if(price > 4, 'dear', 'cheap'), greatest(id, 5), least(id, 5), nvl2(price, 1, 2) FROM items;

-- name: digests
SELECT md5(name), sha2(name, 256), crc32(name), hex(name), base64(CAST(name AS BINARY)), ascii(name) FROM items;

-- name: binary
SELECT CAST(name AS BINARY) AS b, unhex('4A6F') AS u, encode(name, 'UTF-8') AS e FROM people WHERE id < 3;

-- name: unicode
SELECT id, char_length(name) AS c, octet_length(name) AS o FROM items WHERE name >= 'z' OR name = 'Äpfel';

-- name: json
SELECT get_json_object('{"a": {"b": [1, 2]}}', '$.a.b[1]') AS x, to_json(maker) AS j, from_json('{"n": 5}', 'n INT').n AS n FROM items WHERE id = 1;

-- name: order by an expression
-- ordered
SELECT name FROM people ORDER BY length(city) DESC NULLS LAST, name DESC;

-- name: order of NULLs
-- ordered
SELECT id, kind FROM items ORDER BY kind ASC NULLS FIRST, id DESC;

-- name: arrays
SELECT id, tags[0] AS first, size(tags) AS n, array_contains(tags, 'hot') AS hot, sort_array(tags) AS s FROM items WHERE size(tags) > 0;

-- name: array functions
SELECT array_union(tags, array('new')), array_except(tags, array('hot')), array_join(tags, ',', '?'), slice(tags, 1, 1), array_position(tags, 'green') FROM items WHERE tags IS NOT NULL;

-- name: higher-order functions
SELECT transform(tags, t -> upper(t)) AS u, filter(tags, t -> t LIKE '%e%') AS f, aggregate(array(1, 2, 3), 0, (a, x) -> a + x) AS s FROM items;

-- name: maps
SELECT id, sizes['small'] AS s, map_values(sizes) AS v, sort_array(map_keys(sizes)) AS k, size(sizes) AS n FROM items;

-- name: structs
SELECT id, maker.name, maker.city AS c FROM items WHERE maker.city = 'Ulm';

-- name: all fields of a struct
SELECT id, maker.* FROM items WHERE maker IS NOT NULL;

-- name: making nested values
SELECT named_struct('id', id, 'tags', tags) AS s, map(name, price) AS m, array(id, id + 1) AS a, struct(id, name) AS t FROM items WHERE name IS NOT NULL;

-- name: nested values with dates and decimals
SELECT array(since) AS d, named_struct('p', price, 'd', since, 'at', TIMESTAMP '2024-01-01 10:00:00') AS s, map('x', CAST(1.50 AS DECIMAL(5,2))) AS m FROM items WHERE id IN (1, 2);

-- name: group by a field
SELECT maker.city AS city, count(*) AS n FROM items GROUP BY maker.city;

-- name: flatten
SELECT flatten(collect_list(tags)) IS NOT NULL AS there, size(flatten(collect_list(tags))) AS n FROM items;

-- name: zip
SELECT arrays_zip(tags, transform(tags, t -> length(t))) AS z FROM items WHERE id = 1;

-- name: sort by
SELECT id FROM sales DISTRIBUTE BY item SORT BY id;

-- name: cluster by
SELECT item, number FROM sales CLUSTER BY item;

-- name: sample of everything
SELECT count(*) AS n FROM items TABLESAMPLE (100 PERCENT);

-- name: all partitions of TPC-H's orders
SELECT o_orderpriority, count(*) AS n, min(o_orderdate) AS first FROM orders GROUP BY o_orderpriority;

-- name: CHAR is compared without its blanks
SELECT n_nationkey FROM nation WHERE n_name = 'FRANCE' OR n_name = 'GERMANY   ';

-- name: a partition by its value
SELECT count(*) AS n FROM orders WHERE o_orderpriority = '5-LOW';

-- name: lengths of CHAR and VARCHAR
-- plain: SELECT length(rtrim(n_name)) AS n, length(n_comment) AS c, concat('<', rtrim(n_name), '>') AS name FROM nation WHERE n_nationkey = 6
SELECT length(n_name) AS n, length(n_comment) AS c, concat('<', n_name, '>') AS name FROM nation WHERE n_nationkey = 6;
