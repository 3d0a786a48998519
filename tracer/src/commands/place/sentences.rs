//! A plan in words, for people.

use std::fmt::Write;

use anyhow::Result;
use memtrace_analysis::placement::{Gained, Middle, Moved, Object, Plan, Tiers, Traffic, Where};

use super::tier::SWAP;
use crate::units::Bytes;

/// Objects that are listed.
const LISTED: usize = 15;

/// A plan in words.
///
/// # Errors
/// None: it writes to memory.
pub fn sentences(plan: &Plan) -> Result<String> {
    let mut text = String::new();
    let (seconds, is_swap) = (&plan.seconds, plan.tiers.slow == SWAP);
    let Tiers { slow, fast } = &plan.tiers;
    writeln!(text, "{}", plan.program.command)?;
    match plan.traffic {
        Some(Traffic { kernel, .. }) => {
            writeln!(text, "  the kernel swaps    {:8.2} s   estimated{}", seconds.slow, traffic(kernel))?;
        }
        None => writeln!(text, "  all in {slow:12} {:8.2} s", seconds.slow)?,
    }
    if let Some(Middle { tier, seconds, .. }) = &plan.middle {
        writeln!(text, "  all in {tier:12} {seconds:8.2} s")?;
    }
    writeln!(text, "  all in {fast:12} {:8.2} s", seconds.fast)?;
    writeln!(
        text,
        "  planned             {:8.2} s ± {:.2} s   {} of {} in {fast}{}{}",
        seconds.planned,
        seconds.uncertainty,
        Bytes(plan.used_bytes),
        Bytes(plan.fast_bytes),
        plan.middle.as_ref().map(in_the_middle).unwrap_or_default(),
        plan.traffic.map(|each| traffic(each.planned)).unwrap_or_default()
    )?;
    plan.notes.iter().try_for_each(|note| writeln!(text, "  {note}"))?;
    let is_shown =
        |object: &Object| if is_swap { object.moved_bytes > 0 } else { matters(object, plan.fast_bytes) };
    let shown = plan.objects.iter().enumerate().filter(|(_, object)| is_shown(object));
    let count = shown.clone().count();
    if count > 0 {
        let head = match &plan.middle {
            _ if is_swap => "          moved      bytes",
            None => "      gains of time      bytes  tier",
            Some(_) => "       gains: fast   middle of time      bytes  tier  ",
        };
        writeln!(text, "{head}  allocated at")?;
    }
    for (index, object) in shown.take(LISTED) {
        let numbers = if is_swap { moved(object) } else { gained(object) };
        writeln!(text, "{:3} {numbers}  {}", index + 1, place(object))?;
    }
    // Of those that are not moved there is nothing to say.
    let all = if is_swap { count } else { plan.objects.len() };
    match all - count.min(LISTED) {
        0 => {}
        more if count == 0 => {
            writeln!(text, "  no object gains what would show here (--json has all {more})")?
        }
        more => writeln!(text, "  and {more} more (--json has all)")?,
    }
    Ok(text)
}

/// Whether an object gains, or takes of the time or of the fast tier, what shows in the figures.
fn matters(object: &Object, fast_bytes: u64) -> bool {
    let takes_room = object.tier != Where::Slow && object.bytes >= fast_bytes / 100;
    let gains = [object.gain_seconds, object.gained(Where::Middle).gain_seconds];
    takes_room || object.time_share >= 0.0005 || gains.iter().any(|gain| gain.abs() >= 0.005)
}

fn traffic(moved: Moved) -> String {
    let Moved { written_bytes, back_bytes } = moved;
    if written_bytes.max(back_bytes) == 0 {
        return String::new();
    }
    format!(", {} to swap and {} back", Bytes(written_bytes), Bytes(back_bytes))
}

fn in_the_middle(middle: &Middle) -> String {
    format!(", {} of {} in {}", Bytes(middle.used_bytes), Bytes(middle.bytes), middle.tier)
}

fn moved(object: &Object) -> String {
    format!("{:>11} {:>10}", Bytes(object.moved_bytes).to_string(), Bytes(object.bytes).to_string())
}

fn gained(object: &Object) -> String {
    let tier = match object.tier {
        Where::Slow => "slow",
        Where::Middle => "middle",
        Where::Fast => "fast",
    };
    let Object { gain_seconds, time_share, bytes, middle, .. } = object;
    let (share, bytes) = (100.0 * time_share, Bytes(*bytes).to_string());
    match middle {
        None => format!("{gain_seconds:5.2} s {share:5.1} % {bytes:>10}  {tier}"),
        Some(Gained { gain_seconds: of_middle, .. }) => {
            format!("{gain_seconds:12.2} s {of_middle:6.2} s {share:5.1} % {bytes:>10}  {tier:6}")
        }
    }
}

fn place(object: &Object) -> String {
    let place = object.place.as_deref().unwrap_or("an unknown place");
    if object.ordinal > 0 { format!("{place} ({} more live)", object.ordinal) } else { place.to_owned() }
}
