//! Messages that do not end the command.

/// Prints a line that Git would print at this point. It begins with `error: `, `warning: ` or
/// `hint: `; the command continues. The default prints nothing.
#[derive(Clone, Copy, Debug)]
pub struct MessageSink(pub fn(&str));

impl Default for MessageSink {
    fn default() -> MessageSink {
        MessageSink(|_| {})
    }
}

impl MessageSink {
    /// Prints each line.
    pub fn print(self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.0(&line));
    }
}
