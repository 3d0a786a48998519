//! The live view's side of a recording: sends its figures to clients that watch (`memtrace top`),
//! and spans that have ended to clients that follow them. Without clients nothing is done, and
//! nothing kept; all is made of what is folded anyway.

mod figures;
mod growth;
mod memory_limit;
mod placed;
mod progress;
mod span_stream;
mod subscribers;

use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use memtrace_trace::Meta;

use self::figures::Watched;
pub use self::memory_limit::{MemoryLimit, PredictionOptions};
use self::span_stream::SpanStream;
use self::subscribers::Subscriber;
use super::fold::Fold;
use super::transport::listener::Client;
use crate::live_protocol::{Figures, Line, Message, Request};

/// A recording, as the live view sees it.
pub struct Recording<'a> {
    /// Directory of the trace.
    pub directory: &'a Path,
    /// What is known of it.
    pub meta: &'a Meta,
    /// What is folded.
    pub fold: &'a Fold,
    /// What each process may have.
    pub limit: &'a MemoryLimit,
}

/// See the module.
pub struct Live {
    clients: Receiver<Client>,
    watched: Watched,
    streams: Vec<SpanStream>,
}

impl Live {
    /// Without clients yet.
    pub fn new(clients: Receiver<Client>) -> Live {
        Live { clients, watched: Watched::default(), streams: Vec::new() }
    }

    /// Sends clients what is due.
    pub fn publish(&mut self, recording: &Recording) {
        self.admit(recording);
        self.streams.retain_mut(|stream| stream.send(recording.fold));
        if self.watched.subscribers.is_empty() {
            // Nothing is kept for clients that have left.
            self.watched = Watched::default();
            return;
        }
        if self.watched.subscribers.is_due() {
            let figures = self.watched.figures(recording);
            self.watched.subscribers.send(&Message::Figures(Box::new(figures)));
        }
    }

    /// Everything has ended: sends the spans that were not sent yet.
    pub fn send_last_spans(&mut self, recording: &Recording) {
        self.admit(recording);
        self.streams.retain_mut(|stream| stream.send_last(recording.fold));
    }

    /// The last figures, if a client watches; everything has ended.
    pub fn last_figures(&mut self, recording: &Recording) -> Option<Figures> {
        self.admit(recording);
        if self.watched.subscribers.is_empty() {
            return None;
        }
        Some(self.watched.last_figures(recording))
    }

    /// The trace is complete.
    pub fn send_last(&mut self, figures: Figures) {
        self.watched.subscribers.send_last(&Message::Figures(Box::new(figures)));
    }

    fn admit(&mut self, recording: &Recording) {
        for Client { stream, request } in self.clients.try_iter() {
            match request {
                Request::Figures { every_ms } => {
                    let subscriber = Subscriber::new(stream, Duration::from_millis(every_ms.into()));
                    subscriber.into_iter().for_each(|subscriber| self.watched.subscribers.add(subscriber));
                }
                Request::Spans => {
                    let line = Line::Recording {
                        trace: recording.directory.display().to_string(),
                        host: recording.meta.host.clone(),
                        recorder: std::process::id(),
                        start_unix_ns: recording.meta.start_unix_ns,
                    };
                    self.streams.extend(SpanStream::new(stream, &line));
                }
            }
        }
    }
}
