//! One stack from two: where the interpreter's evaluation function is in the native one, the Python
//! frames it runs are put in its place.

/// A frame of the merged stack, by its position in the one it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Of the native stack.
    Native(usize),
    /// Of the Python stack.
    Python(usize),
}

/// Merges two stacks, innermost first. `evaluates` marks the native frames that are the evaluation
/// function, `entries` which Python frames are the outermost that one call of it runs, `complete`
/// whether the native stack reaches its outermost frame.
///
/// If the calls do not fit together, the native frames inside the innermost call are kept and all
/// Python frames follow.
pub fn merge(evaluates: &[bool], entries: &[bool], complete: bool) -> Vec<Step> {
    let calls = evaluates.iter().filter(|evaluates| **evaluates).count();
    let runs = entries.iter().filter(|entry| **entry).count();
    if calls != runs && (complete || calls > runs) {
        let inner = evaluates.iter().take_while(|evaluates| !**evaluates).count();
        return (0..inner).map(Step::Native).chain((0..entries.len()).map(Step::Python)).collect();
    }
    let mut steps = Vec::with_capacity(evaluates.len() + entries.len());
    let mut python = 0;
    for (native, evaluates) in evaluates.iter().enumerate() {
        if !evaluates {
            steps.push(Step::Native(native));
            continue;
        }
        while python < entries.len() {
            steps.push(Step::Python(python));
            python += 1;
            if entries[python - 1] {
                break;
            }
        }
    }
    steps.extend((python..entries.len()).map(Step::Python));
    steps
}

#[cfg(test)]
mod tests {
    use super::Step::{Native as N, Python as P};
    use super::*;

    #[test]
    fn one_evaluation_runs_several_python_frames() {
        let steps = merge(&[false, true, false, true, false], &[false, true, true], true);
        assert_eq!(steps, [N(0), P(0), P(1), N(2), P(2), N(4)]);
    }

    #[test]
    fn a_native_stack_that_was_cut_keeps_the_python_frames_farther_out() {
        assert_eq!(merge(&[false, true, false], &[true, true, true], false), [N(0), P(0), N(2), P(1), P(2)]);
    }

    #[test]
    fn stacks_that_do_not_fit_are_put_one_after_the_other() {
        assert_eq!(merge(&[false, true, false, true], &[true], true), [N(0), P(0)]);
        assert_eq!(merge(&[false], &[true, true], true), [N(0), P(0), P(1)]);
    }

    #[test]
    fn a_native_stack_alone_stays_as_it_is() {
        assert_eq!(merge(&[false, false], &[], true), [N(0), N(1)]);
    }
}
