//! Command lines in settings and variables.

use std::process::Command;

use bstr::BString;

/// Returns the shell command that runs `text` with `args` appended.
pub(super) fn through_shell(text: &[u8], args: &[BString]) -> Command {
    let script = if args.is_empty() { text.to_vec() } else { [text, b" \"$@\""].concat() };
    let mut command = Command::new("sh");
    command.arg("-c").arg(sys::os_str(&script)).arg(sys::os_str(text));
    command.args(args.iter().map(|arg| sys::os_str(arg)));
    command
}

/// Returns the first word of a command line; `None` if a quote is not closed or there is no word.
pub(super) fn first_word(text: &[u8]) -> Option<BString> {
    let (mut word, mut quote, mut rest) = (BString::default(), None, text.trim_ascii_start().iter());
    if rest.as_slice().is_empty() {
        return None;
    }
    let mut is_first = true;
    while let Some(&byte) = rest.next() {
        match (byte, quote) {
            (b'\\', None | Some(b'"')) => {
                let next = *rest.next()?;
                if is_first {
                    word.push(next);
                }
            }
            (b'\'' | b'"', None) => quote = Some(byte),
            (_, Some(open)) if byte == open => quote = None,
            (_, None) if byte.is_ascii_whitespace() => is_first = false,
            _ if is_first => word.push(byte),
            _ => {}
        }
    }
    quote.is_none().then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words() {
        for (text, word) in [
            ("ssh -v", Some("ssh")),
            ("  '/a b/plink' x", Some("/a b/plink")),
            ("a\\ b \"c d\"", Some("a b")),
            ("\"x\"y", Some("xy")),
            ("ssh 'open", None),
            ("", None),
        ] {
            assert_eq!(first_word(text.as_bytes()), word.map(BString::from), "{text}");
        }
    }
}
