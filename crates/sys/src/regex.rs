//! Regular expressions by the C library: those Git itself uses, in the locale of the environment.

use std::{
    ffi::{CStr, CString},
    mem::MaybeUninit,
    ops::Range,
};

/// Matches ends where it is told to, not with a NUL. It is 4 in all C libraries that have it; musl does not.
const STARTEND: libc::c_int = 4;

/// An extended regular expression of POSIX, which looks at lines: what is negated matches no end of a line, and `^` and `$` match at each.
#[derive(Debug)]
pub struct Regex {
    // Boxed as a compiled one need not be movable.
    compiled: Box<libc::regex_t>,
    locale: Option<Locale>,
}

// SAFETY: regexec takes it as const, and POSIX has it be safe among threads.
unsafe impl Sync for Regex {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Regex {}

impl Regex {
    /// Compiles `pattern`. The error is the C library's message.
    pub fn new(pattern: &[u8]) -> Result<Regex, Vec<u8>> {
        let pattern = CString::new(pattern).map_err(|_| b"NUL in the pattern".to_vec())?;
        if cfg!(target_env = "musl") {
            return Err(b"the C library cannot match what is not a string".to_vec());
        }
        let locale = Locale::of_environment();
        let _used = locale.as_ref().map(Locale::take);
        let mut compiled = Box::new(MaybeUninit::<libc::regex_t>::uninit());
        let flags = libc::REG_EXTENDED | libc::REG_NEWLINE;
        // SAFETY: `compiled` is room for one, and `pattern` a C string that outlives the call.
        let code = unsafe { libc::regcomp(compiled.as_mut_ptr(), pattern.as_ptr(), flags) };
        if code != 0 {
            let mut message = [0u8; 1024];
            // SAFETY: of a failed compilation regerror may be told the same pointer; it writes no more than it is given, with a NUL at the end.
            unsafe {
                libc::regerror(code, compiled.as_ptr(), message.as_mut_ptr().cast(), message.len());
            }
            let message = CStr::from_bytes_until_nul(&message).map(CStr::to_bytes).unwrap_or_default();
            return Err(message.to_vec());
        }
        // SAFETY: regcomp has filled it.
        let compiled = unsafe { Box::from_raw(Box::into_raw(compiled).cast::<libc::regex_t>()) };
        Ok(Regex { compiled, locale })
    }

    /// Where `text` first matches. Unless it is the `start`, no line begins with it.
    pub fn find(&self, text: &[u8], start: bool) -> Option<Range<usize>> {
        let end = libc::regoff_t::try_from(text.len()).unwrap_or(libc::regoff_t::MAX);
        let mut found = libc::regmatch_t { rm_so: 0, rm_eo: end };
        let flags = STARTEND | if start { 0 } else { libc::REG_NOTBOL };
        let _used = self.locale.as_ref().map(Locale::take);
        // SAFETY: `compiled` is, `found` says how much of `text` there is, and has room for the one match asked for.
        let code = unsafe { libc::regexec(&*self.compiled, text.as_ptr().cast(), 1, &raw mut found, flags) };
        let offset = |at| usize::try_from(at).ok();
        (code == 0).then_some(offset(found.rm_so)?..offset(found.rm_eo)?)
    }
}

impl Drop for Regex {
    fn drop(&mut self) {
        // SAFETY: it was compiled, and nobody has it after this.
        unsafe { libc::regfree(&mut *self.compiled) };
    }
}

/// What characters are, as the environment has it.
#[derive(Debug)]
struct Locale(libc::locale_t);

/// That a thread uses a locale.
struct Used(libc::locale_t);

impl Locale {
    /// `None` if it names one that is not there: what is in use stays.
    fn of_environment() -> Option<Locale> {
        // SAFETY: the name is a C string, and no other locale is given to change.
        let locale = unsafe { libc::newlocale(libc::LC_CTYPE_MASK, c"".as_ptr(), std::ptr::null_mut()) };
        // Made only then: it is freed with what has it.
        (!locale.is_null()).then(|| Locale(locale))
    }

    fn take(&self) -> Used {
        // SAFETY: the locale is there for as long as `self`, which outlives what it is used for.
        Used(unsafe { libc::uselocale(self.0) })
    }
}

impl Drop for Locale {
    fn drop(&mut self) {
        // SAFETY: it is nobody's any more.
        unsafe { libc::freelocale(self.0) };
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        // SAFETY: it is what the thread used before.
        unsafe { libc::uselocale(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_ends() {
        let regex = Regex::new(b"^(one|t[^x]o)$").expect("well formed");
        assert_eq!(regex.find(b"x\nt\0o\none", true), Some(2..5));
        assert_eq!(regex.find(b"one", true), Some(0..3));
        assert_eq!(regex.find(b"one", false), None);
        assert_eq!(regex.find(&b"one more"[..3], true), Some(0..3));
        assert_eq!(Regex::new(b"x*").expect("well formed").find(b"", true), Some(0..0));
    }

    #[test]
    fn what_is_not_well_formed() {
        let message = Regex::new(b"(").expect_err("it is open");
        assert!(message.starts_with(b"Unmatched ("), "{}", String::from_utf8_lossy(&message));
    }
}
