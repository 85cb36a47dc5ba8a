CREATE TABLE IF NOT EXISTS turns (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, size INTEGER NOT NULL,
    UNIQUE (owner, name)
);
CREATE TABLE IF NOT EXISTS names (
    owner TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS names_by_number ON names (number);
CREATE TABLE IF NOT EXISTS total (
    one INTEGER PRIMARY KEY CHECK (one = 1), entries INTEGER NOT NULL, size INTEGER NOT NULL
);
INSERT OR IGNORE INTO total VALUES (1, 0, 0);
-- Counting rows would read the whole table at every put; triggers keep the sums.
CREATE TRIGGER IF NOT EXISTS turn_added AFTER INSERT ON turns BEGIN
    UPDATE total SET entries = entries + 1, size = size + NEW.size;
END;
CREATE TRIGGER IF NOT EXISTS turn_gone AFTER DELETE ON turns BEGIN
    UPDATE total SET entries = entries - 1, size = size - OLD.size;
    DELETE FROM names WHERE number = OLD.number;
END;
