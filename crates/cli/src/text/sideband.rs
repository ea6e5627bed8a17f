//! Progress texts of the other side, each line led by `remote: `.

/// Cuts what arrives into lines.
#[derive(Debug)]
pub(crate) struct Sideband {
    terminal: bool,
    line: Vec<u8>,
}

impl Sideband {
    /// `terminal`: lines that replace each other are cleared to their end.
    pub(crate) fn new(terminal: bool) -> Sideband {
        Sideband { terminal, line: Vec::new() }
    }

    /// What to print now that these bytes have come.
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

    /// What is left at the end.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.line.is_empty() {
            self.end(&mut out, b'\n');
        }
        out
    }

    fn end(&mut self, out: &mut Vec<u8>, end: u8) {
        out.extend_from_slice(b"remote: ");
        // The other side's bytes must not drive the terminal.
        let shown = |byte: u8| if byte.is_ascii_control() && byte != b'\t' { b'?' } else { byte };
        out.extend(self.line.drain(..).map(shown));
        if out.last() != Some(&b' ') || out.len() > b"remote: ".len() {
            out.extend_from_slice(if self.terminal { b"\x1b[K" } else { b"        " });
        }
        out.push(end);
    }
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
        assert_eq!(sideband.push(b"ne\x1b[2J\n"), b"remote: done?[2J\x1b[K\n");
        assert_eq!(sideband.push(b"rest"), b"");
        assert_eq!(sideband.finish(), b"remote: rest\x1b[K\n");
        assert_eq!(sideband.finish(), b"");
    }
}
