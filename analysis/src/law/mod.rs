//! Laws: what a fitted function *shape → bytes* consists of, how it is found and how it is evaluated.

pub mod align;
pub mod bounded;
pub mod fold;
pub mod form;
pub mod heap;
pub mod live;
pub mod regression;
pub mod resident;
pub mod search;
pub mod size;

pub use form::{Factor, Form, Rule};
pub use live::{Peak, Sequence};
pub use regression::Regression;
pub use resident::Resident;
pub use size::{Seen, Size};

/// One value per variable of a law, in the law's order.
pub type Point = [u64];

/// Product of a point's values: the volume by which runs are compared and grouped.
///
/// Saturates: a volume is only ever compared.
pub fn volume(point: &Point) -> u128 {
    point.iter().fold(1, |product: u128, &n| product.saturating_mul(u128::from(n)))
}
