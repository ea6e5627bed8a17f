//! Progress text of the remote; each line gets the prefix `remote: `.

/// Splits the received bytes into lines.
#[derive(Debug)]
pub(crate) struct Sideband {
    terminal: bool,
    line: Vec<u8>,
}

impl Sideband {
    /// If `terminal` is true, a line that replaces another one is cleared to its end.
    pub(crate) fn new(terminal: bool) -> Sideband {
        Sideband { terminal, line: Vec::new() }
    }

    /// Returns the lines that are complete after `bytes`.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for &byte in bytes {
            if byte == b'\n' || byte == b'\r' {
                self.end(&mut out, byte);
            } else {
                self.line.push(byte);
            }
        }
        out
    }

    /// Returns the incomplete last line.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.line.is_empty() {
            self.end(&mut out, b'\n');
        }
        out
    }

    fn end(&mut self, out: &mut Vec<u8>, end: u8) {
        out.extend_from_slice(b"remote: ");
        sanitize(&self.line, out);
        self.line.clear();
        if out.last() != Some(&b' ') || out.len() > b"remote: ".len() {
            out.extend_from_slice(if self.terminal { b"\x1b[K" } else { b"        " });
        }
        out.push(end);
    }
}

/// Escapes control characters from the remote, which must not control the terminal. Only tabs and
/// colours pass, as with Git's default of `sideband.allowControlCharacters`. Bytes after a NUL are
/// dropped.
fn sanitize(line: &[u8], out: &mut Vec<u8>) {
    let mut rest = line.split(|&byte| byte == 0).next().unwrap_or_default();
    while let Some((&byte, after)) = rest.split_first() {
        let colour = colour_sequence(rest);
        if colour > 0 {
            out.extend_from_slice(&rest[..colour]);
            rest = &rest[colour..];
            continue;
        }
        match byte {
            0x7f => out.extend_from_slice(b"^?"),
            _ if byte.is_ascii_control() && byte != b'\t' => out.extend_from_slice(&[b'^', byte + 0x40]),
            _ => out.push(byte),
        }
        rest = after;
    }
}

/// Returns the length of the colour sequence (`ESC [ 1 ; 31 m`) at the start of `text`; 0 without
/// one.
fn colour_sequence(text: &[u8]) -> usize {
    let Some(parameters) = text.strip_prefix(b"\x1b[") else { return 0 };
    let end = parameters.iter().position(|byte| !byte.is_ascii_digit() && *byte != b';');
    end.filter(|&end| parameters[end] == b'm').map_or(0, |end| end + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_however_they_arrive() {
        let mut sideband = Sideband::new(true);
        assert_eq!(sideband.push(b"Count"), b"");
        assert_eq!(
            sideband.push(b"ing: 1%\rCounting: 2%\rdo"),
            b"remote: Counting: 1%\x1b[K\rremote: Counting: 2%\x1b[K\r"
        );
        assert_eq!(sideband.push(b"ne\x1b[2J\n"), b"remote: done^[[2J\x1b[K\n");
        assert_eq!(
            sideband.push(b"a \x1b[1;31mred\x1b[m \x1b[31 \x07\t\x7f\0b\n"),
            b"remote: a \x1b[1;31mred\x1b[m ^[[31 ^G\t^?\x1b[K\n"
        );
        assert_eq!(sideband.push(b"rest"), b"");
        assert_eq!(sideband.finish(), b"remote: rest\x1b[K\n");
        assert_eq!(sideband.finish(), b"");
    }
}
