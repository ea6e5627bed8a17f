//! One source file: its imports, re-exports and definitions.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, tokens};

/// A path to an item of this crate.
#[derive(Debug)]
pub(super) struct UsedPath {
    /// Its parts, relative to the file's own module; a final `*` is left out.
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// A parsed file.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// Relative to the source root.
    pub(super) file: String,
    pub(super) paths: Vec<UsedPath>,
    /// The names that `use` lines of the file's own module import, and their targets.
    pub(super) uses: BTreeMap<String, Vec<String>>,
    /// The modules whose items are imported with `*`.
    pub(super) globs: Vec<Vec<String>>,
    pub(super) child_modules: BTreeSet<String>,
    /// Child modules that exist only for tests.
    pub(super) test_modules: BTreeSet<String>,
    /// The files of test modules with a `#[path]`, relative to this file.
    test_paths: Vec<String>,
    defined: BTreeSet<String>,
}

impl Source {
    pub(super) fn parse(file: String, text: &str) -> Source {
        let mut source = Source { file, ..Source::default() };
        let tokens = tokens(text);
        // The names of child modules must be known before the first use.
        source.child_modules = declared_modules(&tokens);
        Parser { tokens: &tokens, at: 0, depth: 0, inline: Vec::new(), source: &mut source }.items();
        let tests = &source.test_modules;
        source.child_modules.retain(|module| !tests.contains(module));
        source
    }

    /// Returns true if the file's own module defines an item with this name.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.defined.contains(name)
    }

    /// Returns the files of its test modules with a `#[path]`, relative to the source root.
    pub(super) fn test_files(&self) -> impl Iterator<Item = String> + use<'_> {
        let dir = self.file.rsplit_once('/').map(|(dir, _)| format!("{dir}/")).unwrap_or_default();
        self.test_paths.iter().map(move |path| format!("{dir}{path}"))
    }
}

fn declared_modules(tokens: &[(Token, usize)]) -> BTreeSet<String> {
    let is_mod = |token: &Token| *token == Token::Ident("mod".to_owned());
    let declared = tokens.windows(3).filter_map(|three| match three {
        [(word, _), (Token::Ident(name), _), (Token::Punct(';'), _)] if is_mod(word) => Some(name.clone()),
        _ => None,
    });
    declared.collect()
}

struct Parser<'t> {
    tokens: &'t [(Token, usize)],
    at: usize,
    /// The number of open braces, without those of inline modules.
    depth: usize,
    /// The enclosing inline modules, each with the depth outside of it.
    inline: Vec<(String, usize)>,
    source: &'t mut Source,
}

impl Parser<'_> {
    fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at).map(|(token, _)| token)
    }

    fn ident(&self, at: usize) -> Option<&str> {
        match self.token(at) {
            Some(Token::Ident(ident)) => Some(ident),
            _ => None,
        }
    }

    fn is_punct(&self, at: usize, punct: char) -> bool {
        self.token(at) == Some(&Token::Punct(punct))
    }

    fn is_path_sep(&self, at: usize) -> bool {
        self.token(at) == Some(&Token::PathSep)
    }

    fn items(&mut self) {
        while self.at < self.tokens.len() {
            match self.token(self.at) {
                Some(Token::Punct('#')) if self.is_punct(self.at + 1, '[') => self.attribute(),
                Some(Token::Punct('{')) => {
                    self.depth += 1;
                    self.at += 1;
                }
                Some(Token::Punct('}')) => {
                    match self.inline.last() {
                        Some((_, outside)) if *outside == self.depth => drop(self.inline.pop()),
                        _ => self.depth = self.depth.saturating_sub(1),
                    }
                    self.at += 1;
                }
                Some(Token::Ident(word)) if word == "use" => self.use_line(),
                Some(Token::Ident(word)) if word == "mod" && self.is_punct(self.at + 2, '{') => {
                    let name = self.ident(self.at + 1).unwrap_or_default().to_owned();
                    self.inline.push((name, self.depth));
                    self.at += 3;
                }
                Some(Token::Ident(_)) => self.word(),
                _ => self.at += 1,
            }
        }
    }

    /// Skips an attribute. Also skips the item after it if the item is for tests only.
    fn attribute(&mut self) {
        let (start, end) = (self.at, self.matching(self.at + 1, '[', ']'));
        let inside: Vec<&str> = (start..end).filter_map(|at| self.ident(at)).collect();
        let is_test = inside.first() == Some(&"cfg") && inside.contains(&"test") && !inside.contains(&"not");
        self.at = end;
        if !is_test {
            return;
        }
        let mut path = None;
        while self.is_punct(self.at, '#') {
            let end = self.matching(self.at + 1, '[', ']');
            if self.ident(self.at + 2) == Some("path")
                && let Some(Token::Text(text)) = self.token(self.at + 4)
            {
                path = Some(text.clone());
            }
            self.at = end;
        }
        let first = self.at;
        // The item ends with a semicolon, or with the braces of its body.
        while self.at < self.tokens.len() && !self.is_punct(self.at, ';') && !self.is_punct(self.at, '{') {
            self.at += 1;
        }
        if self.is_punct(self.at, ';') {
            let module = (first..self.at).find(|&at| self.ident(at) == Some("mod"));
            if let Some(name) = module.and_then(|at| self.ident(at + 1)) {
                let name = name.to_owned();
                self.source.test_paths.extend(path);
                self.source.test_modules.insert(name);
            }
            self.at += 1;
        } else {
            let is_use = self.ident(first) == Some("use");
            self.at = self.matching(self.at, '{', '}');
            if is_use {
                self.at += 1;
            }
        }
    }

    /// Returns the position after the bracket that matches the one at `at`.
    fn matching(&self, at: usize, open: char, close: char) -> usize {
        let mut depth = 0usize;
        for next in at..self.tokens.len() {
            if self.is_punct(next, open) {
                depth += 1;
            } else if self.is_punct(next, close) {
                depth -= 1;
                if depth == 0 {
                    return next + 1;
                }
            }
        }
        self.tokens.len()
    }

    fn use_line(&mut self) {
        let line = self.tokens[self.at].1;
        self.at += 1;
        // `use<..>` is a bound, not an import.
        if self.is_punct(self.at, '<') {
            return;
        }
        self.use_tree(&mut Vec::new(), line);
    }

    /// Parses a `use` tree. `above` are the parts of the path so far.
    fn use_tree(&mut self, above: &mut Vec<String>, line: usize) {
        let length = above.len();
        loop {
            match self.token(self.at) {
                Some(Token::Ident(word)) => {
                    let word = word.clone();
                    self.at += 1;
                    if self.is_path_sep(self.at) {
                        above.push(word);
                        self.at += 1;
                        continue;
                    }
                    if word != "self" || above.is_empty() {
                        above.push(word);
                    }
                    let mut name = above.last().cloned().unwrap_or_default();
                    if self.ident(self.at) == Some("as") {
                        name = self.ident(self.at + 1).unwrap_or_default().to_owned();
                        self.at += 2;
                    }
                    if self.depth == 0 && self.inline.is_empty() {
                        self.source.uses.insert(name, above.clone());
                    }
                    self.used(above.clone(), line);
                }
                Some(Token::Punct('*')) => {
                    self.at += 1;
                    if self.depth == 0 && self.inline.is_empty() {
                        self.source.globs.push(above.clone());
                    }
                    self.used(above.clone(), line);
                }
                Some(Token::Punct('{')) => {
                    self.at += 1;
                    while self.at < self.tokens.len() && !self.is_punct(self.at, '}') {
                        if self.is_punct(self.at, ',') {
                            self.at += 1;
                        } else {
                            self.use_tree(above, self.tokens[self.at].1);
                        }
                    }
                    self.at += 1;
                }
                _ => self.at += 1,
            }
            break;
        }
        above.truncate(length);
    }

    /// Parses a word, which may begin a path or a definition.
    fn word(&mut self) {
        let start = self.at;
        let line = self.tokens[start].1;
        let word = self.ident(start).unwrap_or_default().to_owned();
        let is_continued = start > 0 && (self.is_path_sep(start - 1) || self.is_punct(start - 1, '.'));
        let is_own = matches!(word.as_str(), "crate" | "super" | "self")
            || self.inline.is_empty() && self.source.child_modules.contains(&word);
        if self.is_path_sep(start + 1) && is_own && !is_continued {
            let mut segments = vec![word];
            self.at += 1;
            while self.is_path_sep(self.at)
                && let Some(next) = self.ident(self.at + 1)
            {
                segments.push(next.to_owned());
                self.at += 2;
            }
            self.used(segments, line);
            return;
        }
        const ITEMS: &[&str] =
            &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];
        if self.depth == 0 && self.inline.is_empty() && ITEMS.contains(&word.as_str()) {
            let mut at = start + 1;
            while self.is_punct(at, '!') || matches!(self.ident(at), Some("mut" | "fn" | "unsafe")) {
                at += 1;
            }
            if let Some(name) = self.ident(at) {
                let name = name.to_owned();
                self.source.defined.insert(name);
            }
        }
        self.at += 1;
    }

    /// Records a path. In an inline module, the path is made relative to the file's own module.
    fn used(&mut self, mut segments: Vec<String>, line: usize) {
        let up = segments.iter().take_while(|part| *part == "super").count();
        if !self.inline.is_empty() && segments[0] != "crate" {
            if up < self.inline.len() {
                return;
            }
            segments.drain(..self.inline.len());
            if up == self.inline.len() {
                segments.insert(0, "self".to_owned());
            }
        }
        self.source.paths.push(UsedPath { segments, line });
    }
}
