//! `--signoff`: a trailer at the end of the message, in the existing trailer block or in a new one.
//! The rules for such a block are those of git-interpret-trailers(1).

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};

use crate::term::console::text;

/// Trailer lines that Git itself generates.
const OWN: [&str; 2] = ["Signed-off-by: ", "(cherry picked from commit "];

/// The settings of trailers.
pub(super) struct Rules {
    separators: BString,
    /// Names and keys of configured trailers.
    names: Vec<BString>,
    comment: BString,
}

/// Adds the line `Signed-off-by: <who>` to the message, before its last `ignored` bytes.
pub(super) fn append(repo: &Repository, message: &mut BString, who: &BStr, ignored: usize, comment: &BStr) {
    let line = text!("Signed-off-by: ", who, "\n");
    if ignored == 0 && message.last().is_some_and(|last| *last != b'\n') {
        message.push(b'\n');
    }
    let end = message.len() - ignored;
    let rules = Rules::read(repo, comment);
    let footer = if message[..end] == **line {
        Footer::EndsWithLine
    } else {
        rules.footer(&message[..end], line.as_bstr())
    };
    let mut added = Vec::new();
    if footer == Footer::None {
        added.extend_from_slice(match &message[..end] {
            [] => b"\n\n".as_slice(),
            [_] => b"\n",
            [.., before, _] if *before != b'\n' => b"\n",
            _ => b"",
        });
    }
    if footer != Footer::EndsWithLine {
        added.extend_from_slice(&line);
    }
    let tail = message.split_off(end);
    message.extend(added);
    message.extend(tail);
}

/// The trailer block at the end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Footer {
    None,
    Other,
    /// The block ends with the line to add.
    EndsWithLine,
}

impl Rules {
    pub(super) fn read(repo: &Repository, comment: &BStr) -> Rules {
        let mut names = Vec::new();
        for name in repo.config_names() {
            let Some(rest) = name.strip_prefix(b"trailer.") else { continue };
            if let Some((trailer, key)) = rest.rsplit_once_str(".") {
                names.push(trailer.into());
                if key == b"key" {
                    names.extend(repo.config_str(&name.to_str_lossy()));
                }
            }
        }
        let separators = repo.config_text(&keys::trailer::SEPARATORS);
        Rules { separators, names, comment: comment.to_owned() }
    }

    /// Returns true if a trailer of the command line begins with the separator after the key.
    pub(super) fn lacks_key(&self, trailer: &[u8]) -> bool {
        trailer.first().is_some_and(|first| *first == b'=' || self.separators.contains(first))
    }

    fn footer(&self, message: &[u8], line: &BStr) -> Footer {
        let message = match message.find_byte(0) {
            Some(end) => &message[..end],
            None => message,
        };
        let end = message.len() - sapwood::commit::cleanup::ignored_bytes(message, self.comment.as_bstr());
        let message = &message[..end];
        let mut last = None;
        let mut continues = false;
        for text in message[self.block(message)..].lines_with_terminator() {
            if continues && text.first().is_some_and(u8::is_ascii_whitespace) {
                continue;
            }
            continues = self.separator(text).is_some_and(|at| at >= 1);
            last = Some(text.starts_with(line));
        }
        match last {
            None => Footer::None,
            Some(true) => Footer::EndsWithLine,
            Some(false) => Footer::Other,
        }
    }

    /// Returns the offset of the trailer block; the message's length without one.
    fn block(&self, message: &[u8]) -> usize {
        let lines: Vec<&[u8]> = message.lines_with_terminator().collect();
        let is_comment = |line: &[u8]| line.starts_with(&self.comment);
        let is_blank = |line: &[u8]| line.iter().all(u8::is_ascii_whitespace);
        let title = lines.iter().position(|line| !is_comment(line) && is_blank(line));
        let Some(title) = title else { return message.len() };
        let (mut is_recognized, mut trailers, mut others, mut continuations) = (false, 0, 0, 0);
        let mut only_spaces = true;
        for (at, line) in lines.iter().enumerate().skip(title).rev() {
            if is_comment(line) {
                others += std::mem::take(&mut continuations);
            } else if is_blank(line) {
                if only_spaces {
                    continue;
                }
                others += continuations;
                let is_block = is_recognized && trailers * 3 >= others || trailers > 0 && others == 0;
                let start: usize = lines[..=at].iter().map(|line| line.len()).sum();
                return if is_block { start } else { message.len() };
            } else {
                only_spaces = false;
                let starts_blank = line[0].is_ascii_whitespace();
                let separator = self.separator(line).filter(|at| *at >= 1 && !starts_blank);
                if OWN.iter().any(|own| line.starts_with(own.as_bytes())) {
                    trailers += 1;
                    continuations = 0;
                    is_recognized = true;
                } else if let Some(end) = separator {
                    trailers += 1;
                    continuations = 0;
                    let token = &line[..end];
                    let is_it =
                        |name: &BString| name.get(..end).is_some_and(|name| name.eq_ignore_ascii_case(token));
                    is_recognized |= self.names.iter().any(is_it);
                } else if starts_blank {
                    continuations += 1;
                } else {
                    others += 1 + std::mem::take(&mut continuations);
                }
            }
        }
        message.len()
    }

    /// Returns the offset of the separator after a token of letters, digits and dashes, which
    /// spaces may follow.
    fn separator(&self, line: &[u8]) -> Option<usize> {
        let mut has_blank = false;
        for (at, byte) in line.iter().enumerate() {
            match byte {
                _ if self.separators.contains(byte) => return Some(at),
                b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' if !has_blank => {}
                b' ' | b'\t' if at > 0 => has_blank = true,
                _ => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules { separators: ":".into(), names: vec!["acked-by".into()], comment: "#".into() }
    }

    #[test]
    fn finds_the_block() {
        let footer = |message: &str| rules().footer(message.as_bytes(), "Signed-off-by: a <b>\n".into());
        assert_eq!(footer("title\n"), Footer::None);
        assert_eq!(footer("title: x\n"), Footer::None);
        assert_eq!(footer("title\n\nbody\n"), Footer::None);
        assert_eq!(footer("title\n\nAcked-by: x\n"), Footer::Other);
        assert_eq!(footer("title\n\nFixes: x\n  more\n"), Footer::Other);
        assert_eq!(footer("title\n\nSigned-off-by: a <b>\n"), Footer::EndsWithLine);
        assert_eq!(footer("title\n\nother\nSigned-off-by: a <b>\n"), Footer::EndsWithLine);
        assert_eq!(footer("title\n\none\ntwo\nthree\nfour\nFixes: x\n"), Footer::None);
    }
}
