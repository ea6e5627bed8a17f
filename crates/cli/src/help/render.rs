//! A page as input for `man`, and as plain text.

use roff::{Inline, Roff, bold, italic, roman};

use super::{
    page::{Block, Page},
    text::{self, Style, Text},
};

/// The width of plain text and its indents, in columns; the same as in `man`.
const WIDTH: usize = 80;
const INDENT: usize = 7;
const ITEM: usize = 14;

/// Renders a page in roff. The result does not depend on the date.
pub(super) fn roff(page: &Page) -> String {
    let mut document = Roff::new();
    let version = concat!("sapwood ", env!("CARGO_PKG_VERSION"));
    document.control("TH", [&page.name.to_uppercase()[..], "1", " ", version, "sapwood manual"]);
    // Do not hyphenate option names and commands, and do not stretch the spaces in them.
    document.control("nh", []).control("ad", ["l"]);
    for block in &page.blocks {
        match block {
            Block::Section(title) => document.control("SH", [&title[..]]),
            Block::Subsection(title) => document.control("SS", [&title[..]]),
            Block::Paragraph(text) => document.control("PP", []).text(inlines(text)),
            Block::Usage(text) => document.control("HP", ["4n"]).text(inlines(text)),
            Block::Item(term, text) => document.control("TP", []).text(inlines(term)).text(inlines(text)),
        };
    }
    // groff renders these characters as accents.
    document.render().replace('^', "\\(ha").replace('~', "\\(ti").replace('`', "\\(ga")
}

fn inlines(text: &Text) -> Vec<Inline> {
    let inline = |span: &text::Span| match span.style {
        Style::Plain => roman(&span.text),
        Style::Literal => bold(&span.text),
        Style::Value => italic(&span.text),
    };
    text.iter().map(inline).collect()
}

/// Renders a page as plain text of 80 columns.
pub(super) fn plain(page: &Page) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut was_usage = false;
    for block in &page.blocks {
        let is_usage = matches!(block, Block::Usage(_));
        let is_below_text = lines.last().is_some_and(|last| last.is_empty() || last.starts_with("       "));
        if is_below_text && !(is_usage && was_usage) {
            lines.push(String::new());
        }
        was_usage = is_usage;
        match block {
            Block::Section(title) => lines.push(title.clone()),
            Block::Subsection(title) => lines.push(format!("   {title}")),
            Block::Paragraph(text) => indent(&mut lines, &text::plain(text, true), INDENT, INDENT),
            Block::Usage(text) => indent(&mut lines, &text::plain(text, false), INDENT, INDENT + 4),
            Block::Item(term, text) => {
                indent(&mut lines, &text::plain(term, false), INDENT, INDENT);
                indent(&mut lines, &text::plain(text, true), ITEM, ITEM);
            }
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Adds the lines of `text`, the first one indented by `first` columns, the others by `rest`.
fn indent(lines: &mut Vec<String>, text: &str, first: usize, rest: usize) {
    for (number, line) in text::wrap(text, WIDTH - rest).into_iter().enumerate() {
        let indent = if number == 0 { first } else { rest };
        lines.push(format!("{:indent$}{line}", ""));
    }
}
