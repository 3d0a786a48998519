//! The end of a program: what is live then, before its process tidies up.

use super::Fold;
use crate::record::state::process::MainEnd;

impl Fold {
    /// The program of a process has ended. Only the first report counts.
    pub(super) fn main_ended(&mut self, index: u32) {
        let Fold { processes, sites, spans, rows, .. } = self;
        let process = &mut processes[index];
        if process.main_end.is_some() {
            return;
        }
        process.main_end = Some(MainEnd { stamp: self.now, live: process.live() });
        let accounts = sites.accounts_mut();
        process.each_block(|block| {
            accounts.block_at_end(block.site, block.bytes);
            spans.live_at_end(block.span, block.bytes);
        });
        process.each_piece(|piece| {
            accounts.mapping_at_end(piece.site, piece.touched);
            spans.live_at_end(piece.span, piece.touched);
        });
        rows.live_at_end(spans.take_live_at_end());
    }
}
