//! The C library's `iconv`.

use std::ffi::CString;

use super::Error;

/// Converts `input` and appends the result to `out`. On failure `out` is unchanged.
///
/// Each call opens its own descriptor: glibc's UTF-16 remembers the byte order of the previous text
/// even after a reset.
pub(super) fn convert(to: &[u8], from: &[u8], input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let conversion = Descriptor::open(to, from).ok_or(Error::Unknown)?;
    let before = out.len();
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
        // SAFETY: `rest` and `rest_len` describe the unread part of `input`, which iconv does not
        // write to, whatever its prototype says. `end` and `free` describe the vector's spare
        // capacity.
        let result = unsafe { libc::iconv(conversion.0, &mut rest, &mut rest_len, &mut end, &mut free) };
        let error = std::io::Error::last_os_error().raw_os_error();
        // SAFETY: iconv has initialised exactly the bytes that it took from `free`.
        unsafe { out.set_len(start + spare - free) };
        if result != usize::MAX {
            return Ok(());
        }
        if error != Some(libc::E2BIG) {
            out.truncate(before);
            return Err(Error::Unfit);
        }
        room = rest_len * 2 + 32;
    }
}

struct Descriptor(libc::iconv_t);

impl Descriptor {
    fn open(to: &[u8], from: &[u8]) -> Option<Descriptor> {
        let (to, from) = (CString::new(to).ok()?, CString::new(from).ok()?);
        // SAFETY: both are C strings that outlive the call.
        let descriptor = unsafe { libc::iconv_open(to.as_ptr(), from.as_ptr()) };
        (descriptor as isize != -1).then(|| Descriptor(descriptor))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open, and nothing uses it after this.
        unsafe { libc::iconv_close(self.0) };
    }
}
