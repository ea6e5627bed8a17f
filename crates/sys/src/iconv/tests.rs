use super::*;

#[test]
fn writes_byte_order_marks_and_refuses_bad_input() {
    let mut out = b"kept".to_vec();
    assert_eq!(convert(b"UTF-16", b"UTF-8", "h\u{e9}".as_bytes(), &mut out), Ok(()));
    assert_eq!(out, b"kept\xff\xfeh\0\xe9\0");
    let before = out.clone();
    assert_eq!(convert(b"UTF-16", b"UTF-8", b"\xff", &mut out), Err(Error::Unfit));
    assert_eq!(convert(b"no-such-encoding", b"UTF-8", b"x", &mut out), Err(Error::Unknown));
    assert_eq!(convert(b"nul\0", b"UTF-8", b"x", &mut out), Err(Error::Unknown));
    assert_eq!(out, before);
}

#[test]
fn byte_order_does_not_carry_over() {
    let mut out = Vec::new();
    for text in [&b"\xfe\xff\0a"[..], b"b\0"] {
        assert_eq!(convert(b"UTF-8", b"UTF-16", text, &mut out), Ok(()));
    }
    assert_eq!(out, b"ab");
}

#[test]
fn grows_the_buffer_for_long_input() {
    let input = "\u{fc}".repeat(100_000);
    let mut out = Vec::new();
    assert_eq!(convert(b"UTF-32LE", b"UTF-8", input.as_bytes(), &mut out), Ok(()));
    assert_eq!(out.len(), 400_000);
}

/// The encodings that the program converts itself, by all their names.
const OWN: &[&str] = &[
    "UTF-8",
    "utf8",
    "UTF-16",
    "utf16",
    "UTF-16LE",
    "UTF16le",
    "UTF-16BE",
    "UTF16BE",
    "UTF-32",
    "UTF32",
    "UTF-32LE",
    "UTF32LE",
    "UTF-32BE",
    "UTF32BE",
    "ISO-8859-1",
    "iso8859-1",
    "ISO88591",
    "ISO_8859-1",
    "latin1",
    "ASCII",
    "us-ascii",
];

/// Converts as a static program does.
fn own(to: &str, from: &str, input: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    convert_without_glibc(to.as_bytes(), from.as_bytes(), input, &mut out).map(|()| out)
}

fn of_library(to: &str, from: &str, input: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    library::convert(to.as_bytes(), from.as_bytes(), input, &mut out).map(|()| out)
}

/// Byte strings that are valid, cut, swapped, marked or wrong in one of the encodings.
fn inputs() -> Vec<Vec<u8>> {
    let texts = [
        "",
        "a",
        "h\u{e9}",
        "\u{feff}x",
        "\u{fffe}",
        "\u{20ac}",
        "\u{1f600}z",
        "\u{e0041}q",
        "\0",
        "\u{7f}\u{80}",
    ];
    let mut all: Vec<Vec<u8>> = Vec::new();
    for text in texts {
        all.push(text.as_bytes().to_vec());
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}{text}");
            all.push(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
            all.push(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
            all.push(text.chars().flat_map(|letter| u32::from(letter).to_le_bytes()).collect());
            all.push(text.chars().flat_map(|letter| u32::from(letter).to_be_bytes()).collect());
        }
    }
    // A surrogate alone, one after a letter, a number above the last character, overlong UTF-8.
    all.extend(
        [&b"\0\xd8"[..], b"a\0\0\xdc", b"\0\0\x11\0", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]
            .map(<[u8]>::to_vec),
    );
    let cut: Vec<Vec<u8>> =
        all.iter().filter(|text| !text.is_empty()).map(|text| text[..text.len() - 1].to_vec()).collect();
    all.extend(cut);
    all
}

#[test]
#[cfg(target_env = "gnu")]
fn a_static_program_converts_unicode_as_glibc_does() {
    let mut different = Vec::new();
    for (to, from) in OWN.iter().flat_map(|to| OWN.iter().map(move |from| (to, from))) {
        // Nobody asks for it, and glibc lets numbers above the last character through.
        if [to, from].iter().all(|name| Encoding::of(name.as_bytes()) == Some(Encoding::UTF_8)) {
            continue;
        }
        for input in inputs() {
            let (own, library) = (own(to, from, &input), of_library(to, from, &input));
            if own != library {
                different.push(format!("{from} to {to}: {input:x?}: {own:x?}, glibc: {library:x?}"));
            }
        }
    }
    assert!(different.is_empty(), "{}\n{}", different.len(), different[..different.len().min(20)].join("\n"));
}

#[test]
#[cfg(target_env = "gnu")]
fn a_static_program_converts_other_encodings_as_the_system_does() {
    let text = "Stra\u{df}e \u{65e5}\u{672c}";
    for to in [
        "ISO-8859-15",
        "WINDOWS-1252",
        "SHIFT-JIS",
        "GB18030",
        "EUC-JP",
        "KOI8-R",
        "latin-1",
        "no-such-encoding",
    ] {
        for text in ["Stra\u{df}e", "\u{65e5}\u{672c}", "\u{434}", text, ""] {
            let library = of_library(to, "UTF-8", text.as_bytes());
            assert_eq!(own(to, "UTF-8", text.as_bytes()), library, "{to}: {text}");
            if let Ok(bytes) = library {
                assert_eq!(own("UTF-8", to, &bytes), of_library("UTF-8", to, &bytes), "from {to}: {text}");
            }
        }
    }
}

#[test]
fn a_lossy_conversion_of_the_library_is_refused() {
    let mut out = Vec::new();
    let text = "\u{20ac}5".as_bytes();
    assert_eq!(convert_with_check(b"KOI8-R", b"UTF-8", text, &mut out), Err(Error::Unfit));
    assert_eq!(convert_with_check(b"ISO-8859-15", b"UTF-8", text, &mut out), Ok(()));
    assert_eq!(out, b"\xa45");
    assert_eq!(convert_with_check(b"UTF-16", b"ISO-8859-15", b"\xa4", &mut out), Ok(()));
    assert_eq!(out, b"\xa45\xff\xfe\xac\x20");
}
