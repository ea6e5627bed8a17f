//! Colours as they are configured, and their terminal escape sequences. Source: git-config(1),
//! "color".

use bstr::{BStr, BString, ByteSlice as _};

/// Resets all attributes.
pub const RESET: &str = "\x1b[m";

/// Returns the escape sequence of a configured colour, empty for no colour, or `None` if the value
/// is invalid.
pub fn parse(value: &BStr) -> Option<BString> {
    let (mut resets, mut colors, mut attributes) = (false, Vec::new(), Vec::new());
    for word in value.fields_with(|letter| letter.is_ascii_whitespace()) {
        if word.eq_ignore_ascii_case(b"reset") {
            resets = true;
        } else if let Some(color) = Color::parse(word) {
            if colors.len() == 2 {
                return None;
            }
            colors.push(color);
        } else {
            attributes.push(attribute(word)?);
        }
    }
    attributes.sort_unstable();
    attributes.dedup();
    let mut codes: Vec<String> = if resets { vec![String::new()] } else { Vec::new() };
    codes.extend(attributes.iter().map(u8::to_string));
    const OFFSETS: [u8; 2] = [0, 10];
    codes.extend(colors.into_iter().zip(OFFSETS).filter_map(|(color, offset)| color.code(offset)));
    Some(if codes.is_empty() { BString::default() } else { format!("\x1b[{}m", codes.join(";")).into() })
}

fn attribute(word: &[u8]) -> Option<u8> {
    let (word, is_off) = match word.strip_prefix(b"no") {
        Some(rest) => (rest.strip_prefix(b"-").unwrap_or(rest), true),
        None => (word, false),
    };
    let (on, off) = match word {
        b"bold" => (1, 22),
        b"dim" => (2, 22),
        b"italic" => (3, 23),
        b"ul" => (4, 24),
        b"blink" => (5, 25),
        b"reverse" => (7, 27),
        b"strike" => (9, 29),
        _ => return None,
    };
    Some(if is_off { off } else { on })
}

#[derive(Clone, Copy, Debug)]
enum Color {
    Normal,
    /// The code of the foreground colour.
    Named(u8),
    Numbered(u8),
    Mixed([u8; 3]),
}

const NAMES: [&str; 8] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const PLAIN: u8 = 30;
const BRIGHT: u8 = 90;

impl Color {
    fn parse(word: &[u8]) -> Option<Color> {
        if word.eq_ignore_ascii_case(b"normal") {
            return Some(Color::Normal);
        }
        if let Some(mixed) = word.strip_prefix(b"#").and_then(mixed) {
            return Some(mixed);
        }
        if word.eq_ignore_ascii_case(b"default") {
            return Some(Color::Named(PLAIN + 9));
        }
        let (name, base) = match word.get(..6).filter(|start| start.eq_ignore_ascii_case(b"bright")) {
            Some(_) => (&word[6..], BRIGHT),
            None => (word, PLAIN),
        };
        if let Some(at) = NAMES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
            return Some(Color::Named(base + at as u8));
        }
        match std::str::from_utf8(word).ok()?.parse::<i16>().ok()? {
            -1 => Some(Color::Normal),
            number @ 0..8 => Some(Color::Named(PLAIN + number as u8)),
            number @ 8..16 => Some(Color::Named(BRIGHT + number as u8 - 8)),
            number => Some(Color::Numbered(u8::try_from(number).ok()?)),
        }
    }

    /// Returns the SGR code; `offset` is 10 for a background colour.
    fn code(self, offset: u8) -> Option<String> {
        match self {
            Color::Normal => None,
            Color::Named(code) => Some((code + offset).to_string()),
            Color::Numbered(number) => Some(format!("{};5;{number}", 38 + offset)),
            Color::Mixed([red, green, blue]) => Some(format!("{};2;{red};{green};{blue}", 38 + offset)),
        }
    }
}

/// Parses `#rgb` or `#rrggbb`, without the `#`.
fn mixed(digits: &[u8]) -> Option<Color> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let values: Vec<u8> = digits.iter().map(|&byte| digit(byte)).collect::<Option<_>>()?;
    match values[..] {
        [red, green, blue] => Some(Color::Mixed([red * 17, green * 17, blue * 17])),
        [r1, r2, g1, g2, b1, b2] => Some(Color::Mixed([r1 * 16 + r2, g1 * 16 + g2, b1 * 16 + b2])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_form_of_a_colour() {
        let parsed = |value: &str| parse(value.into()).map(|sequence| sequence.to_string());
        for (value, sequence) in [
            ("", ""),
            (" normal -1", ""),
            ("red", "\x1b[31m"),
            ("bold red", "\x1b[1;31m"),
            ("red bold blue", "\x1b[1;31;44m"),
            ("normal blue", "\x1b[44m"),
            ("BrightGreen 9", "\x1b[92;101m"),
            ("200 #12f", "\x1b[38;5;200;48;2;17;34;255m"),
            ("nobold no-ul default", "\x1b[22;24;39m"),
            ("reset", "\x1b[m"),
            ("reset red", "\x1b[;31m"),
        ] {
            assert_eq!(parsed(value).as_deref(), Some(sequence), "{value}");
        }
        for value in ["redd", "red blue green", "256", "-2", "#12", "Bold"] {
            assert_eq!(parsed(value), None, "{value}");
        }
    }
}
