//! Shapes as laws take them: one length for each variable.

/// One value per variable of a law, in the law's order.
pub type Point = [u64];

/// Product of a point's values: the volume by which runs are compared and grouped.
///
/// Saturates: a volume is only ever compared.
pub fn volume(point: &Point) -> u128 {
    point.iter().fold(1, |product: u128, &n| product.saturating_mul(u128::from(n)))
}

/// `200×200×100`
pub fn joined(shape: &Point) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join("×")
}
