//! pkt-line framing. Format: Git's `gitprotocol-common(5)`.

/// The maximum payload of a line in bytes.
pub const MAX_PAYLOAD: usize = 65516;

/// The meaning of the four digits at the start of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// `0000`
    Flush,
    /// `0001`
    Delimiter,
    /// `0002`
    ResponseEnd,
    /// A line with this many bytes of payload follows.
    Data(usize),
}

/// Parses the four digits. Returns `None` if they are not a valid length.
pub fn parse_header(digits: [u8; 4]) -> Option<Header> {
    let mut length = 0;
    for digit in digits {
        length = length * 16 + (digit as char).to_digit(16)? as usize;
    }
    match length {
        0 => Some(Header::Flush),
        1 => Some(Header::Delimiter),
        2 => Some(Header::ResponseEnd),
        3 => None,
        _ if length - 4 <= MAX_PAYLOAD => Some(Header::Data(length - 4)),
        _ => None,
    }
}

/// Appends one line to `out`. `payload` is at most [`MAX_PAYLOAD`] bytes.
pub fn write_line(out: &mut Vec<u8>, payload: &[u8]) {
    debug_assert!(payload.len() <= MAX_PAYLOAD);
    out.extend_from_slice(format!("{:04x}", payload.len() + 4).as_bytes());
    out.extend_from_slice(payload);
}

/// Appends a flush packet.
pub fn write_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Appends a delimiter packet.
pub fn write_delimiter(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0001");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        assert_eq!(parse_header(*b"0000"), Some(Header::Flush));
        assert_eq!(parse_header(*b"0001"), Some(Header::Delimiter));
        assert_eq!(parse_header(*b"0002"), Some(Header::ResponseEnd));
        assert_eq!(parse_header(*b"0003"), None);
        assert_eq!(parse_header(*b"0004"), Some(Header::Data(0)));
        assert_eq!(parse_header(*b"fff0"), Some(Header::Data(MAX_PAYLOAD)));
        assert_eq!(parse_header(*b"fff1"), None);
        assert_eq!(parse_header(*b"-001"), None);
    }

    #[test]
    fn writes_lines_and_special_packets() {
        let mut out = Vec::new();
        write_line(&mut out, b"command=ls-refs\n");
        write_delimiter(&mut out);
        write_flush(&mut out);
        assert_eq!(out, b"0014command=ls-refs\n00010000");
    }
}
