//! Regular expressions of the C library, in the locale of the environment, as Git uses them.
//!
//! musl matches only strings that end with NUL, so a program with musl copies the text. It searches
//! a text with NULs part by part: no match contains a NUL there.

use std::{
    ffi::{CStr, CString},
    mem::MaybeUninit,
    ops::Range,
};

/// `REG_STARTEND`: the match ends at a given offset, not at a NUL. It is 4 in all C libraries that
/// have it; musl does not.
const STARTEND: libc::c_int = 4;

/// A POSIX extended regular expression.
#[derive(Debug)]
pub struct Regex {
    // Boxed because a compiled expression need not be movable.
    compiled: Box<libc::regex_t>,
    locale: Option<Locale>,
}

// SAFETY: regexec takes the expression as const, and POSIX makes it safe to call from several
// threads.
unsafe impl Sync for Regex {}
// SAFETY: the expression holds nothing that belongs to a thread.
unsafe impl Send for Regex {}

impl Regex {
    /// Compiles a pattern that works on lines: a negated bracket does not match a newline, and `^`
    /// and `$` match at each line. The error is the C library's message.
    pub fn new(pattern: &[u8]) -> Result<Regex, Vec<u8>> {
        Regex::compile(pattern, libc::REG_EXTENDED | libc::REG_NEWLINE)
    }

    /// Compiles a pattern that treats a newline like any other character.
    pub fn of_text(pattern: &[u8]) -> Result<Regex, Vec<u8>> {
        Regex::compile(pattern, libc::REG_EXTENDED)
    }

    fn compile(pattern: &[u8], flags: libc::c_int) -> Result<Regex, Vec<u8>> {
        let pattern = CString::new(pattern).map_err(|_| b"NUL in the pattern".to_vec())?;
        let locale = Locale::of_environment();
        let _active = locale.as_ref().map(Locale::activate);
        let mut compiled = Box::new(MaybeUninit::<libc::regex_t>::uninit());
        // SAFETY: `compiled` has room for one expression, and `pattern` is a C string that outlives
        // the call.
        let code = unsafe { libc::regcomp(compiled.as_mut_ptr(), pattern.as_ptr(), flags) };
        if code != 0 {
            let mut message = [0u8; 1024];
            // SAFETY: regerror accepts the pointer of a failed compilation. It writes at most the
            // given length, NUL included.
            unsafe {
                libc::regerror(code, compiled.as_ptr(), message.as_mut_ptr().cast(), message.len());
            }
            let message = CStr::from_bytes_until_nul(&message).map(CStr::to_bytes).unwrap_or_default();
            return Err(message.to_vec());
        }
        // SAFETY: regcomp has filled in the value.
        let compiled = unsafe { Box::from_raw(Box::into_raw(compiled).cast::<libc::regex_t>()) };
        Ok(Regex { compiled, locale })
    }

    /// Returns the first match in `text` as a byte range. If `start` is false, `text` does not
    /// begin at the start of a line, so `^` does not match there.
    pub fn find(&self, text: &[u8], start: bool) -> Option<Range<usize>> {
        let _active = self.locale.as_ref().map(Locale::activate);
        let flags = if start { 0 } else { libc::REG_NOTBOL };
        if cfg!(target_env = "musl") {
            self.find_in_parts(text, flags)
        } else {
            self.find_to_end(text, flags)
        }
    }

    fn find_to_end(&self, text: &[u8], flags: libc::c_int) -> Option<Range<usize>> {
        let end = libc::regoff_t::try_from(text.len()).unwrap_or(libc::regoff_t::MAX);
        let mut found = libc::regmatch_t { rm_so: 0, rm_eo: end };
        // SAFETY: `compiled` is a compiled expression. `found` holds the length of `text`, and has
        // room for the one match that is requested.
        let code = unsafe {
            libc::regexec(&*self.compiled, text.as_ptr().cast(), 1, &raw mut found, STARTEND | flags)
        };
        (code == 0).then_some(range(found, 0)).flatten()
    }

    /// Searches the parts between NULs. Only the first one begins like the text, and only the last
    /// one ends like it.
    fn find_in_parts(&self, text: &[u8], flags: libc::c_int) -> Option<Range<usize>> {
        let mut offset = 0;
        for part in text.split(|&byte| byte == 0) {
            let end = offset + part.len();
            let begins = if offset == 0 { flags } else { libc::REG_NOTBOL };
            let ends = if end == text.len() { 0 } else { libc::REG_NOTEOL };
            let string = CString::new(part).expect("it was split at each NUL");
            let mut found = libc::regmatch_t { rm_so: 0, rm_eo: 0 };
            // SAFETY: `compiled` is a compiled expression, `string` ends in NUL, and `found` has
            // room for the one match that is requested.
            let code =
                unsafe { libc::regexec(&*self.compiled, string.as_ptr(), 1, &raw mut found, begins | ends) };
            if code == 0 {
                return range(found, offset);
            }
            offset = end + 1;
        }
        None
    }
}

/// Returns the range of a match in a text whose part before `offset` was not searched.
fn range(found: libc::regmatch_t, offset: usize) -> Option<Range<usize>> {
    let at = |at| Some(usize::try_from(at).ok()? + offset);
    Some(at(found.rm_so)?..at(found.rm_eo)?)
}

impl Drop for Regex {
    fn drop(&mut self) {
        // SAFETY: the expression was compiled, and nothing uses it after this.
        unsafe { libc::regfree(&mut *self.compiled) };
    }
}

/// The character classification of the environment's locale.
#[derive(Debug)]
struct Locale(libc::locale_t);

/// Restores the thread's previous locale when dropped.
struct ActiveLocale(libc::locale_t);

impl Locale {
    /// Returns `None` if the environment sets an unknown locale. The current locale then stays in
    /// use.
    fn of_environment() -> Option<Locale> {
        // SAFETY: the name is a C string, and no existing locale is changed.
        let locale = unsafe { libc::newlocale(libc::LC_CTYPE_MASK, c"".as_ptr(), std::ptr::null_mut()) };
        // The value is created only if the call succeeded, because dropping it frees the locale.
        (!locale.is_null()).then(|| Locale(locale))
    }

    fn activate(&self) -> ActiveLocale {
        // SAFETY: the locale lives as long as `self`, which outlives its use.
        ActiveLocale(unsafe { libc::uselocale(self.0) })
    }
}

impl Drop for Locale {
    fn drop(&mut self) {
        // SAFETY: the locale is no longer used.
        unsafe { libc::freelocale(self.0) };
    }
}

impl Drop for ActiveLocale {
    fn drop(&mut self) {
        // SAFETY: this is the locale that the thread used before.
        unsafe { libc::uselocale(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_env = "gnu")]
    fn matches_a_nul() {
        let regex = Regex::new(b"^(one|t[^x]o)$").expect("well formed");
        assert_eq!(regex.find(b"x\nt\0o\none", true), Some(2..5));
    }

    #[test]
    fn parts_between_nuls_begin_and_end_no_line() {
        let regex = Regex::new(b"^(one|two)$").expect("well formed");
        assert_eq!(regex.find_in_parts(b"x\0one\0two", 0), None);
        assert_eq!(regex.find_in_parts(b"x\0\none\n\0two", 0), Some(3..6));
        assert_eq!(regex.find_in_parts(b"one", libc::REG_NOTBOL), None);
        assert_eq!(regex.find_in_parts(b"", 0), None);
        let end = Regex::of_text(b"o$").expect("well formed");
        assert_eq!(end.find_in_parts(b"o\0two", 0), Some(4..5));
    }

    #[test]
    fn matches_lines_and_given_ends() {
        let regex = Regex::new(b"^(one|t[^x]o)$").expect("well formed");
        assert_eq!(regex.find(b"one", true), Some(0..3));
        assert_eq!(regex.find(b"one", false), None);
        assert_eq!(regex.find(&b"one more"[..3], true), Some(0..3));
        assert_eq!(Regex::new(b"x*").expect("well formed").find(b"", true), Some(0..0));
        assert_eq!(Regex::of_text(b"^b$").expect("well formed").find(b"a\nb", true), None);
    }

    #[test]
    fn reports_a_malformed_pattern() {
        let message = Regex::new(b"(").expect_err("it is open");
        let expected: &[u8] = if cfg!(target_env = "musl") { b"Missing ')'" } else { b"Unmatched (" };
        assert!(message.starts_with(expected), "{}", String::from_utf8_lossy(&message));
    }
}
