CREATE TABLE IF NOT EXISTS sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,
    grouped TEXT, said TEXT NOT NULL, created REAL NOT NULL, touched REAL NOT NULL, closed REAL,
    turns INTEGER NOT NULL DEFAULT 0, calls INTEGER NOT NULL DEFAULT 0,
    sampled INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL, complete INTEGER NOT NULL DEFAULT 1,
    ended INTEGER NOT NULL DEFAULT 0, seal TEXT
);
CREATE INDEX IF NOT EXISTS sessions_by_group ON sessions (grouped, number);
CREATE INDEX IF NOT EXISTS sessions_by_time ON sessions (closed, touched);
CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, id TEXT NOT NULL,
    head TEXT NOT NULL, ids BLOB NOT NULL, logprobs BLOB NOT NULL, ended INTEGER,
    UNIQUE (session, id)
);
CREATE TABLE IF NOT EXISTS ends (
    session INTEGER NOT NULL, length INTEGER NOT NULL, digest TEXT NOT NULL, call TEXT NOT NULL,
    PRIMARY KEY (session, length, digest)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pictures (
    session INTEGER NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (session, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS weights (
    number INTEGER PRIMARY KEY AUTOINCREMENT, changed REAL NOT NULL, version TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO facts VALUES ('size', '0');
CREATE TRIGGER IF NOT EXISTS session_grew AFTER UPDATE OF size ON sessions BEGIN
    UPDATE facts SET value = value + NEW.size - OLD.size WHERE name = 'size';
END;
CREATE TRIGGER IF NOT EXISTS session_added AFTER INSERT ON sessions BEGIN
    UPDATE facts SET value = value + NEW.size WHERE name = 'size';
END;
CREATE TRIGGER IF NOT EXISTS session_gone AFTER DELETE ON sessions BEGIN
    UPDATE facts SET value = value - OLD.size WHERE name = 'size';
    DELETE FROM calls WHERE session = OLD.number;
    DELETE FROM ends WHERE session = OLD.number;
    DELETE FROM pictures WHERE session = OLD.number;
END;
