//! The thread that hashes while the writer writes.

use std::{
    sync::mpsc::{Receiver, SyncSender, channel, sync_channel},
    thread::{Builder, JoinHandle},
};

use format::{HashKind, ObjectId, hash::Hasher};

use super::{BUFFER, checksum_of};

/// The number of messages that may wait for the thread.
const QUEUE_DEPTH: usize = 4;

/// A hashing thread. It receives full buffers and sends them back.
pub(super) struct HashThread {
    messages: SyncSender<Message>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<Hasher>,
    buffers: usize,
}

enum Message {
    Hash(Vec<u8>),
    /// Send the hash state after all earlier messages.
    Save(SyncSender<Hasher>),
    /// Continue from this state.
    Restore(Hasher),
}

impl HashThread {
    /// Starts a thread that continues from `hasher`. Returns the hasher as the error if the system
    /// refuses a thread.
    pub(super) fn start(hasher: Hasher, kind: HashKind) -> Result<HashThread, Hasher> {
        let (messages, to_do) = sync_channel::<Message>(QUEUE_DEPTH);
        let (give_back, empty) = channel();
        let run = move || {
            let _profiled = sys::profile::thread(sys::profile::Phase::Index);
            let mut hasher = Hasher::checksum(kind);
            for message in to_do {
                match message {
                    Message::Hash(buffer) => {
                        hasher.update(&buffer);
                        // The writer may have finished already, so that it needs no more buffers.
                        let _ = give_back.send(buffer);
                    }
                    Message::Save(to) => drop(to.send(hasher.clone())),
                    Message::Restore(state) => hasher = state,
                }
            }
            hasher
        };
        let Ok(thread) = Builder::new().spawn(run) else { return Err(hasher) };
        let started = HashThread { messages, empty, thread, buffers: 1 };
        started.restore(hasher);
        Ok(started)
    }

    /// Sends a full buffer to the thread, and returns an empty one.
    pub(super) fn exchange(&mut self, full: Vec<u8>) -> Vec<u8> {
        self.send(Message::Hash(full));
        match self.empty.try_recv() {
            Ok(buffer) => buffer,
            Err(_) if self.buffers <= QUEUE_DEPTH => {
                self.buffers += 1;
                Vec::with_capacity(BUFFER)
            }
            Err(_) => self.empty.recv().expect("each buffer comes back"),
        }
    }

    /// Returns the hash state after all data that were sent.
    pub(super) fn save(&self) -> Hasher {
        let (to, from) = sync_channel(1);
        self.send(Message::Save(to));
        from.recv().expect("the thread answers")
    }

    pub(super) fn restore(&self, state: Hasher) {
        self.send(Message::Restore(state));
    }

    fn send(&self, message: Message) {
        self.messages.send(message).expect("the thread takes messages until this end is dropped");
    }

    pub(super) fn finish(self) -> ObjectId {
        drop(self.messages);
        match self.thread.join() {
            Ok(hasher) => checksum_of(hasher),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
