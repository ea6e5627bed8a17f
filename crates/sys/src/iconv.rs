//! Character encodings by the C library's `iconv`: the tables Git itself uses, so that a file is
//! re-encoded to the same bytes.

use std::{ffi::CString, ptr};

/// A conversion from one encoding to another.
pub struct Iconv(libc::iconv_t);

// SAFETY: a descriptor may be used by one thread at a time, which `&mut self` ensures; it is bound to none.
unsafe impl Send for Iconv {}

impl Iconv {
    /// `None` if the C library does not know one of the names.
    pub fn open(to: &[u8], from: &[u8]) -> Option<Iconv> {
        let (to, from) = (CString::new(to).ok()?, CString::new(from).ok()?);
        // SAFETY: both are C strings that outlive the call.
        let descriptor = unsafe { libc::iconv_open(to.as_ptr(), from.as_ptr()) };
        (descriptor as isize != -1).then_some(Iconv(descriptor))
    }

    /// Appends `input`, converted, to `out`. `false`, and `out` as it was, if the input is not valid
    /// in its encoding or cannot be expressed in the other.
    pub fn convert(&mut self, input: &[u8], out: &mut Vec<u8>) -> bool {
        let before = out.len();
        // SAFETY: null pointers ask for the initial state, and nothing else.
        unsafe { libc::iconv(self.0, ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut()) };
        let mut rest = input.as_ptr().cast_mut().cast::<libc::c_char>();
        let mut rest_len = input.len();
        let mut room = input.len() + 16;
        loop {
            out.reserve(room);
            let start = out.len();
            let spare = out.capacity() - start;
            let mut free = spare;
            // SAFETY: `start` is within the capacity.
            let mut end = unsafe { out.as_mut_ptr().add(start) }.cast::<libc::c_char>();
            // SAFETY: `rest` and `rest_len` describe what is left of `input`, which iconv does not write to
            // whatever its prototype says; `end` and `free` the vector's spare capacity.
            let result = unsafe { libc::iconv(self.0, &mut rest, &mut rest_len, &mut end, &mut free) };
            let error = std::io::Error::last_os_error().raw_os_error();
            // SAFETY: iconv has initialised exactly the bytes it took from `free`.
            unsafe { out.set_len(start + spare - free) };
            if result != usize::MAX {
                return true;
            }
            if error != Some(libc::E2BIG) {
                out.truncate(before);
                return false;
            }
            room = rest_len * 2 + 32;
        }
    }
}

impl Drop for Iconv {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open, and nobody has it after this.
        unsafe { libc::iconv_close(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_with_its_mark_and_refusals() {
        let mut out = b"kept".to_vec();
        let mut utf16 = Iconv::open(b"UTF-16", b"UTF-8").expect("known everywhere");
        assert!(utf16.convert("hé".as_bytes(), &mut out));
        assert_eq!(out, b"kept\xff\xfeh\0\xe9\0");
        // Each conversion starts anew, with a mark of its own.
        assert!(utf16.convert(b"x", &mut out));
        assert!(out.ends_with(b"\xff\xfex\0"));
        let before = out.clone();
        assert!(!utf16.convert(b"\xff", &mut out));
        assert_eq!(out, before);
        assert!(Iconv::open(b"no-such-encoding", b"UTF-8").is_none());
    }

    #[test]
    fn long_input_grows() {
        let input = "ü".repeat(100_000);
        let mut out = Vec::new();
        assert!(Iconv::open(b"UTF-32LE", b"UTF-8").expect("known").convert(input.as_bytes(), &mut out));
        assert_eq!(out.len(), 400_000);
    }
}
