//! The parts of XML that S3 writes: elements without attributes that matter, and text.

/// Returns the texts between `<name>` and `</name>`, in order. Elements of this name must not hold
/// each other.
pub(super) fn all<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let after = &rest[rest.find(&open)? + open.len()..];
            // Another element may have a longer name.
            let is_whole = after.starts_with(|char: char| char == '>' || char == '/' || char.is_whitespace());
            let end = after.find('>')?;
            rest = &after[end + 1..];
            if !is_whole {
                continue;
            }
            if after[..end].ends_with('/') {
                return Some("");
            }
            let (inside, after) = rest.split_once(close.as_str())?;
            rest = after;
            return Some(inside);
        }
    })
}

/// Returns the text of the first element of this name, decoded.
pub(super) fn first(text: &str, name: &str) -> Option<String> {
    all(text, name).next().map(decode)
}

/// Replaces `&amp;` and the like.
fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        decoded.push_str(before);
        let found = after.split_once(';').and_then(|(name, after)| Some((character(name)?, after)));
        match found {
            Some((char, after)) => {
                decoded.push(char);
                rest = after;
            }
            None => {
                decoded.push('&');
                rest = after;
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let number = match number.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(number)
        }
    }
}

/// Writes a text for XML.
pub(super) fn encode(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_elements() {
        let text = "<?xml version=\"1.0\"?><L xmlns=\"x\"><KeyCount>2</KeyCount><Key>a&amp;b&#47;&#x63;</Key>\
            <Key/><Key a='b'>c</Key><Key>d";
        assert_eq!(all(text, "Key").collect::<Vec<_>>(), ["a&amp;b&#47;&#x63;", "", "c"]);
        assert_eq!(first(text, "Key").as_deref(), Some("a&b/c"));
        assert_eq!(first(text, "None"), None);
        assert_eq!(decode("a&b&nothing;"), "a&b&nothing;");
        assert_eq!(decode(&encode("<\"&\">")), "<\"&\">");
        for broken in ["<Key", "<Key>", "<Key a", "<", "</Key><Key"] {
            assert_eq!(first(broken, "Key"), None, "{broken}");
        }
    }
}
