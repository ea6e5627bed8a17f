//! Connections that no request uses.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{Address, Conversation};

/// The longest time for which a connection is kept. Servers close idle ones, many after 60 seconds
/// or a little more, and firewalls on the way forget them without a word.
const IDLE: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Kept {
    /// The oldest first.
    free: Mutex<Vec<Free>>,
    most: usize,
}

struct Free {
    server: Address,
    conversation: Conversation,
    since: Instant,
}

impl Kept {
    /// Keeps at most `most` connections, and at least one.
    pub(crate) fn new(most: usize) -> Kept {
        Kept { free: Mutex::default(), most: most.max(1) }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Free>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the newest connection to a server. Closes those that are too old.
    pub(crate) fn take(&self, server: &Address, now: Instant) -> Option<Conversation> {
        let mut free = self.free();
        free.retain(|one| now.saturating_duration_since(one.since) < IDLE);
        let at = free.iter().rposition(|one| one.server.is_same_server(server))?;
        Some(free.remove(at).conversation)
    }

    /// Keeps a connection to a server, and closes the oldest one if there are too many.
    pub(crate) fn put(&self, server: &Address, conversation: Conversation, now: Instant) {
        let mut free = self.free();
        if free.len() >= self.most {
            free.remove(0);
        }
        free.push(Free { server: server.clone(), conversation, since: now });
    }

    /// Closes the connections to a server.
    pub(crate) fn forget(&self, server: &Address) {
        self.free().retain(|one| !one.server.is_same_server(server));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn server(text: &str) -> Address {
        Address::parse(text.as_bytes()).expect("a URL")
    }

    fn put(kept: &Kept, text: &str, now: Instant) {
        kept.put(&server(text), Conversation::new(Box::new(Cursor::new(Vec::new()))), now);
    }

    #[test]
    fn an_idle_connection_is_closed_after_a_minute() {
        let (kept, start) = (Kept::new(8), Instant::now());
        put(&kept, "http://a/", start);
        put(&kept, "http://a/", start + Duration::from_secs(20));
        let late = start + Duration::from_secs(70);
        assert!(kept.take(&server("http://b/"), late).is_none());
        assert!(kept.take(&server("http://a/x"), late).is_some(), "50 seconds old");
        assert!(kept.take(&server("http://a/x"), late).is_none(), "70 seconds old");
    }

    #[test]
    fn a_server_is_forgotten_alone() {
        let (kept, now) = (Kept::new(8), Instant::now());
        for text in ["http://a/", "http://b/", "http://a:81/", "https://a/"] {
            put(&kept, text, now);
        }
        kept.forget(&server("http://a/x"));
        for (text, is_kept) in
            [("http://a/", false), ("http://b/", true), ("http://a:81/", true), ("https://a/", true)]
        {
            assert_eq!(kept.take(&server(text), now).is_some(), is_kept, "{text}");
        }
    }

    #[test]
    fn the_oldest_connection_makes_room() {
        let (kept, now) = (Kept::new(2), Instant::now());
        for text in ["http://a/", "http://b/", "http://c/"] {
            put(&kept, text, now);
        }
        assert!(kept.take(&server("http://a/"), now).is_none());
        assert!(kept.take(&server("http://b/"), now).is_some());
    }
}
