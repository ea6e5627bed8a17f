//! The forms of names, as text.

use bstr::{BStr, ByteSlice as _};

/// Returns the name of the ref in a revision, without suffixes.
pub(super) fn ref_in(spec: &BStr) -> &BStr {
    let mut name = if spec == "-" { "@{-1}".into() } else { spec };
    if let Some(colon) = colon_outside_braces(name) {
        name = name[..colon].as_bstr();
    }
    loop {
        name = match (numeric_suffix(name), brace_suffix(name)) {
            (Some((at, _)), _) => name[..at].as_bstr(),
            (None, Some((base, _))) => base,
            (None, None) => break,
        };
    }
    split_reflog(name).0
}

/// Finds a suffix `^` or `~` with its number; returns its offset. The number is `None` if it is too
/// large, and 1 without digits.
pub(super) fn numeric_suffix(spec: &BStr) -> Option<(usize, Option<usize>)> {
    let digits = spec.iter().rev().take_while(|c| c.is_ascii_digit()).count();
    let at = spec.len().checked_sub(digits + 1)?;
    if !matches!(spec[at], b'^' | b'~') || at == 0 {
        return None;
    }
    let number = match digits {
        0 => Some(1),
        _ => spec[at + 1..].to_str().ok()?.parse::<i32>().ok().map(|n| n as usize),
    };
    Some((at, number))
}

/// Splits `base^{wanted}`.
pub(super) fn brace_suffix(spec: &BStr) -> Option<(&BStr, &BStr)> {
    let inner = spec.strip_suffix(b"}")?;
    let open = inner.rfind(b"^{")?;
    (open > 0).then(|| (inner[..open].as_bstr(), inner[open + 2..].as_bstr()))
}

/// Splits `ref@{log}`. Braces with `-N`, `upstream` or `push` are not a reflog.
pub(super) fn split_reflog(spec: &BStr) -> (&BStr, Option<&BStr>) {
    let whole = (spec, None);
    let Some(inner) = spec.strip_suffix(b"}") else { return whole };
    let Some(open) = inner.rfind(b"@{") else { return whole };
    let log = inner[open + 2..].as_bstr();
    let is = |mark: &str| log.eq_ignore_ascii_case(mark.as_bytes());
    if log.is_empty() || log.starts_with(b"-") || is("u") || is("upstream") || is("push") {
        return whole;
    }
    (spec[..open].as_bstr(), Some(log))
}

/// Splits `@{-N}rest`.
pub(super) fn prior_checkout(name: &BStr) -> Option<(usize, &BStr)> {
    let rest = name.strip_prefix(b"@{-")?;
    let end = rest.find_byte(b'}')?;
    let n = rest[..end].to_str().ok()?.parse().ok().filter(|&n| n > 0)?;
    Some((n, rest[end + 1..].as_bstr()))
}

/// Returns the abbreviated name at the end of `git describe` output: `v1.0-4-gdeadbee`.
pub(super) fn describe_suffix(spec: &BStr) -> Option<&BStr> {
    let digits = spec.iter().rev().take_while(|c| c.is_ascii_hexdigit()).count();
    let at = spec.len() - digits;
    (at >= 2 && spec[at - 1] == b'g' && spec[at - 2] == b'-').then(|| spec[at..].as_bstr())
}

pub(super) fn colon_outside_braces(spec: &BStr) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in spec.iter().enumerate() {
        match c {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b':' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}
