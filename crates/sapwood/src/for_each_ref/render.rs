//! Writes one ref in a format: literals, values, conditions and alignments.

use std::mem;

use super::{
    field::{Condition, Control, Field, FieldKind, Position},
    format::{Format, Piece},
    quote::{Quoting, until_nul},
    unsupported,
};
use crate::{Error, color::RESET};

/// A format with the options that change its output.
pub(super) struct Renderer {
    pub(super) format: Format,
    pub(super) quoting: Quoting,
    /// True if colours are enabled.
    pub(super) colors: bool,
}

/// Appends the value of a field.
pub(super) type Append<'a> = dyn FnMut(&Field, &mut Vec<u8>) -> Result<(), Error> + 'a;

/// An open condition or alignment, and the text in it.
struct Frame<'a> {
    kind: FrameKind<'a>,
    text: Vec<u8>,
}

enum FrameKind<'a> {
    Align { position: Position, width: usize },
    If { condition: &'a Condition, holds: bool, is_otherwise: bool, then: Vec<u8> },
}

impl Renderer {
    /// Appends the format to `out` with the values that `value` appends for the fields.
    pub(super) fn render(&self, out: &mut Vec<u8>, value: &mut Append<'_>) -> Result<(), Error> {
        let mut frames: Vec<Frame<'_>> = Vec::new();
        let mut plain = Vec::new();
        for piece in &self.format.pieces {
            let field = match piece {
                Piece::Literal(text) => {
                    frames.last_mut().map_or(&mut *out, |frame| &mut frame.text).extend_from_slice(text);
                    continue;
                }
                Piece::Field(field) => field,
            };
            match (&field.kind, frames.last_mut()) {
                (FieldKind::Control(control), _) if !matches!(control, Control::Color { .. }) => {
                    self.control(out, &mut frames, control)?;
                }
                // The whole text of a frame is quoted at its end.
                (_, Some(frame)) => self.value(field, &mut frame.text, value)?,
                (_, None) if self.quoting == Quoting::None => self.value(field, out, value)?,
                (_, None) => {
                    plain.clear();
                    self.value(field, &mut plain, value)?;
                    self.quoting.append(out, &plain);
                }
            }
        }
        if self.needs_reset() {
            self.quoting.append(out, RESET.as_bytes());
        }
        Ok(())
    }

    fn value(&self, field: &Field, out: &mut Vec<u8>, value: &mut Append<'_>) -> Result<(), Error> {
        match &field.kind {
            FieldKind::Control(Control::Color { sequence, .. }) => {
                if self.colors {
                    out.extend_from_slice(sequence);
                }
                Ok(())
            }
            _ => value(field, out),
        }
    }

    /// Returns true if a colour is still active at the end.
    fn needs_reset(&self) -> bool {
        let colors = self.format.pieces.iter().rev().filter_map(|piece| match piece {
            Piece::Field(Field { kind: FieldKind::Control(Control::Color { is_reset, .. }), .. }) => {
                Some(*is_reset)
            }
            _ => None,
        });
        self.colors && colors.take(1).any(|is_reset| !is_reset)
    }

    fn control<'a>(
        &self,
        out: &mut Vec<u8>,
        frames: &mut Vec<Frame<'a>>,
        control: &'a Control,
    ) -> Result<(), Error> {
        let open = |kind| Frame { kind, text: Vec::new() };
        match (control, frames.last_mut()) {
            (Control::Align { position, width }, _) => {
                frames.push(open(FrameKind::Align { position: *position, width: *width }));
            }
            (Control::If(condition), _) => frames.push(open(FrameKind::If {
                condition,
                holds: false,
                is_otherwise: false,
                then: Vec::new(),
            })),
            (Control::Then, Some(Frame { kind: FrameKind::If { condition, holds, .. }, text })) => {
                *holds = condition.holds(text);
                text.clear();
            }
            (Control::Else, Some(Frame { kind: FrameKind::If { is_otherwise, then, .. }, text })) => {
                *is_otherwise = true;
                *then = mem::take(text);
            }
            _ => {
                let Some(frame) = frames.pop() else { return Ok(()) };
                let text = frame.end()?;
                match frames.last_mut() {
                    Some(outer) => outer.text.extend_from_slice(&text),
                    None => self.quoting.append(out, &text),
                }
            }
        }
        Ok(())
    }
}

impl Condition {
    fn holds(&self, text: &[u8]) -> bool {
        match self {
            Condition::NotBlank => !text.iter().all(|byte| b" \t\r\n".contains(byte)),
            Condition::Equals(compared) => text == compared.as_slice(),
            Condition::NotEquals(compared) => text != compared.as_slice(),
        }
    }
}

impl Frame<'_> {
    fn end(self) -> Result<Vec<u8>, Error> {
        match self.kind {
            FrameKind::Align { position, width } => align(&self.text, position, width),
            FrameKind::If { holds: true, is_otherwise: true, then, .. } => Ok(then),
            FrameKind::If { holds, is_otherwise, .. } if holds != is_otherwise => Ok(self.text),
            FrameKind::If { .. } => Ok(Vec::new()),
        }
    }
}

/// Pads a text with spaces. Only the real Git knows the width of non-ASCII characters.
fn align(text: &[u8], position: Position, width: usize) -> Result<Vec<u8>, Error> {
    let text = until_nul(text);
    if !text.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return Err(unsupported("alignments of texts that are not ASCII"));
    }
    let padding = width.saturating_sub(text.len());
    let left = match position {
        Position::Left => 0,
        Position::Middle => padding / 2,
        Position::Right => padding,
    };
    let blanks = |count: usize| " ".repeat(count).into_bytes();
    Ok([blanks(left), text.to_vec(), blanks(padding - left)].concat())
}
