//! Lists in columns, as `column.ui` and `--column` configure them. Source: git-config(1) and
//! git-column(1).

use bstr::{BStr, BString, ByteSlice as _};

use crate::term::console::text;

/// When a list is laid out in columns, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) when: When,
    layout: Layout,
    /// Columns are as narrow as they can be.
    dense: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Never,
    Always,
    /// On a terminal.
    Auto,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Layout {
    /// Columns are filled first.
    #[default]
    Columns,
    Rows,
    /// One column.
    Plain,
}

impl Columns {
    /// Applies the words of `value` over the current settings. The error is the rest of `value`
    /// from the first unknown word on.
    pub(crate) fn take<'v>(&mut self, value: &'v BStr) -> Result<(), &'v BStr> {
        let (mut is_laid_out, mut is_enabled) = (false, false);
        let mut rest = value;
        loop {
            rest = rest.trim_start_with(|letter| letter == ' ' || letter == ',').as_bstr();
            if rest.is_empty() {
                break;
            }
            let end = rest.find_byteset(b" ,").unwrap_or(rest.len());
            match rest[..end].as_bytes() {
                b"always" => (self.when, is_enabled) = (When::Always, true),
                b"never" => (self.when, is_enabled) = (When::Never, true),
                b"auto" => (self.when, is_enabled) = (When::Auto, true),
                b"plain" => (self.layout, is_laid_out) = (Layout::Plain, true),
                b"column" => (self.layout, is_laid_out) = (Layout::Columns, true),
                b"row" => (self.layout, is_laid_out) = (Layout::Rows, true),
                b"dense" => self.dense = true,
                b"nodense" => self.dense = false,
                _ => return Err(rest),
            }
            rest = rest[end..].as_bstr();
        }
        if is_laid_out && !is_enabled {
            self.when = When::Always;
        }
        Ok(())
    }

    /// Lays `items` out in lines of `width`, each between `indent` and `end`, with at least one
    /// space between two items. Items are ASCII: their width is their length.
    pub(crate) fn lay_out(self, items: &[BString], width: usize, indent: &BStr, end: &BStr) -> BString {
        const PADDING: usize = 1;
        let mut out = Vec::new();
        if self.layout == Layout::Plain {
            items.iter().for_each(|item| out.extend_from_slice(&text!(indent, item, end)));
            return out.into();
        }
        let widest = items.iter().map(|item| item.len()).max().unwrap_or(0) + PADDING;
        let mut table = Table { layout: self.layout, columns: 1, rows: items.len() };
        table.columns = (width.saturating_sub(indent.len()) / widest).max(1);
        table.rows = items.len().div_ceil(table.columns);
        let mut widths = None;
        if self.dense {
            let fits = |table: &Table| {
                let widths = table.widths(items);
                indent.len() + widths.iter().map(|width| width + PADDING).sum::<usize>() <= width
            };
            while table.rows > 1 {
                let rows = table.rows - 1;
                let narrower = Table { rows, columns: items.len().div_ceil(rows), ..table };
                if !fits(&narrower) {
                    break;
                }
                table = narrower;
            }
            widths = Some(table.widths(items));
        }
        for row in 0..table.rows {
            for column in 0..table.columns {
                let at = table.at(column, row);
                let Some(item) = items.get(at) else { break };
                let is_last = match self.layout {
                    Layout::Columns => at + table.rows >= items.len(),
                    _ => column + 1 == table.columns || at + 1 == items.len(),
                };
                if column == 0 {
                    out.extend_from_slice(indent);
                }
                out.extend_from_slice(item);
                if is_last {
                    out.extend_from_slice(end)
                } else {
                    let column = widths.as_ref().map_or(widest, |widths| widths[column] + PADDING);
                    out.resize(out.len() + column - item.len(), b' ');
                }
            }
        }
        out.into()
    }
}

#[derive(Clone, Copy)]
struct Table {
    layout: Layout,
    columns: usize,
    rows: usize,
}

impl Table {
    /// Returns the position of the item in this column and row.
    fn at(&self, column: usize, row: usize) -> usize {
        match self.layout {
            Layout::Columns => column * self.rows + row,
            _ => row * self.columns + column,
        }
    }

    fn widths(&self, items: &[BString]) -> Vec<usize> {
        let cells = |column| (0..self.rows).filter_map(move |row| items.get(self.at(column, row)));
        (0..self.columns).map(|column| cells(column).map(|item| item.len()).max().unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(words: &str, width: usize) -> String {
        let mut columns = Columns::default();
        columns.take(words.into()).expect("words");
        let items: Vec<BString> = ["a", "bb", "cccccc", "d", "ee", "f"].map(BString::from).into();
        columns.lay_out(&items, width, "> ".into(), "\n".into()).to_string()
    }

    #[test]
    fn layouts() {
        assert_eq!(laid_out("column", 20), "> a      d\n> bb     ee\n> cccccc f\n");
        assert_eq!(laid_out("row", 20), "> a      bb\n> cccccc d\n> ee     f\n");
        assert_eq!(laid_out("column,dense", 20), "> a  cccccc ee\n> bb d      f\n");
        assert_eq!(laid_out("plain", 20), "> a\n> bb\n> cccccc\n> d\n> ee\n> f\n");
        assert_eq!(laid_out("row", 1), "> a\n> bb\n> cccccc\n> d\n> ee\n> f\n");
    }

    #[test]
    fn words() {
        let mut columns = Columns::default();
        columns.take("auto dense".into()).expect("words");
        assert_eq!((columns.when, columns.dense), (When::Auto, true));
        columns.take("row,nodense".into()).expect("words");
        assert_eq!((columns.when, columns.layout, columns.dense), (When::Always, Layout::Rows, false));
        assert_eq!(columns.take("never x y".into()), Err("x y".into()));
    }
}
