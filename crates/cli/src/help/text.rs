//! Text in three styles, parsed from the plain strings of command records.

/// The style of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// Typed literally.
    Literal,
    /// Replaced by a value that the user chooses.
    Value,
}

/// A piece of text in one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) style: Style,
    pub(super) text: String,
}

/// A line or paragraph.
pub(super) type Text = Vec<Span>;

fn push(spans: &mut Text, style: Style, letter: char) {
    match spans.last_mut() {
        Some(last) if last.style == style => last.text.push(letter),
        _ => spans.push(Span { style, text: letter.into() }),
    }
}

/// Parses prose: words in backticks are literal, words in `<>` are values.
pub(super) fn prose(text: &str) -> Text {
    let mut spans = Text::new();
    let (mut literal, mut value) = (false, false);
    for letter in text.chars() {
        match letter {
            '`' => literal = !literal,
            '<' if !literal => {
                value = true;
                push(&mut spans, Style::Value, letter);
            }
            _ if literal => push(&mut spans, Style::Literal, letter),
            _ if value => {
                push(&mut spans, Style::Value, letter);
                value = letter != '>';
            }
            _ => push(&mut spans, Style::Plain, letter),
        }
    }
    spans
}

/// Parses a usage line or an option: all text is literal except values in `<>`, brackets and bars.
pub(super) fn line(text: &str) -> Text {
    let mut spans = Text::new();
    let mut value = false;
    for letter in text.chars() {
        value |= letter == '<';
        let style = match letter {
            _ if value => Style::Value,
            '[' | ']' | '(' | ')' | '|' | '.' | ',' | ' ' => Style::Plain,
            _ => Style::Literal,
        };
        push(&mut spans, style, letter);
        value &= letter != '>';
    }
    spans
}

/// Turns the help of an option into a sentence.
pub(super) fn sentence(help: &str) -> Text {
    let first = help.split(' ').next().unwrap_or_default();
    // Keep the case of a first word with other characters than lower-case letters: it is a name.
    let is_word = first
        .trim_end_matches(',')
        .bytes()
        .all(|letter| letter.is_ascii_lowercase() || matches!(letter, b'\'' | b'/'));
    let mut text = match help.chars().next() {
        Some(letter) if is_word => letter.to_ascii_uppercase().to_string() + &help[letter.len_utf8()..],
        _ => help.to_owned(),
    };
    if !text.ends_with('.') || text.ends_with("...") {
        text.push('.');
    }
    prose(&text)
}

/// Returns the text without styles. Literal text in prose is quoted if `quoted`.
pub(super) fn plain(text: &Text, quoted: bool) -> String {
    text.iter()
        .map(|span| match span.style {
            Style::Literal if quoted => format!("'{}'", span.text),
            _ => span.text.clone(),
        })
        .collect()
}

/// Wraps text into lines of at most `width` columns. Longer words stay whole.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles() {
        let span = |style, text: &str| Span { style, text: text.into() };
        assert_eq!(
            prose("add <pattern> to `a <b>` rules"),
            [
                span(Style::Plain, "add "),
                span(Style::Value, "<pattern>"),
                span(Style::Plain, " to "),
                span(Style::Literal, "a <b>"),
                span(Style::Plain, " rules"),
            ]
        );
        assert_eq!(
            line("--[no-]jobs <n>"),
            [
                span(Style::Literal, "--"),
                span(Style::Plain, "["),
                span(Style::Literal, "no-"),
                span(Style::Plain, "]"),
                span(Style::Literal, "jobs"),
                span(Style::Plain, " "),
                span(Style::Value, "<n>"),
            ]
        );
    }

    #[test]
    fn sentences() {
        let sentence = |help: &str| plain(&sentence(help), true);
        assert_eq!(sentence("be verbose"), "Be verbose.");
        assert_eq!(sentence("HEAD and index"), "HEAD and index.");
        assert_eq!(sentence("use `-x`"), "Use '-x'.");
    }

    #[test]
    fn wrapping() {
        assert_eq!(wrap("a bb  ccc dddd", 6), ["a bb", "ccc", "dddd"]);
    }
}
