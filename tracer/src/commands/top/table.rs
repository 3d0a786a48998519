//! A list of the live view: how its rows are sorted, and which of them are drawn.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::widgets::{Cell as Drawn, Paragraph, Row, Table as Widget};

use super::cells::Cell;
use super::view::ViewStyle;
use crate::terminal::clean;

/// A column.
pub struct Column {
    /// Its heading.
    pub heading: &'static str,
    /// Characters; 0: what is left.
    pub width: u16,
}

/// A list.
pub struct Table {
    name: &'static str,
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    hidden: Range<usize>,
}

/// How the user wants to see one list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish {
    /// The column that rows are sorted by; `None`: as the recorder sends them.
    column: Option<usize>,
    reversed: bool,
    /// The first row that is drawn.
    first: usize,
    /// As many were drawn.
    room: usize,
}

impl Wish {
    /// Sorts by the next column in its first direction; after the last one, not at all.
    pub fn sort_by_next(&mut self, columns: &[usize]) {
        let next = match self.column {
            None => columns.first(),
            Some(column) => columns.iter().find(|other| **other > column),
        };
        (self.column, self.reversed, self.first) = (next.copied(), false, 0);
    }

    /// Sorts the other way round.
    pub fn reverse(&mut self) {
        (self.reversed, self.first) = (!self.reversed, 0);
    }

    /// Moves the rows that are drawn.
    pub fn scroll(&mut self, rows: isize) {
        self.first = self.first.saturating_add_signed(rows);
    }

    /// As many rows as were drawn.
    pub fn page(&self) -> isize {
        self.room.max(1) as isize
    }
}

impl Table {
    /// One with these rows.
    pub fn new(name: &'static str, title: String, columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Table {
        Table { name, title, columns, rows, hidden: 0..0 }
    }

    /// Without the columns in these places.
    pub fn hide(self, places: Range<usize>) -> Table {
        Table { hidden: places, ..self }
    }

    /// It has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What the list is of.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The places of the columns that are drawn.
    pub fn places(&self) -> Vec<usize> {
        (0..self.columns.len()).filter(|place| !self.hidden.contains(place)).collect()
    }

    /// Title, headings, rows, and a line of space.
    pub fn height(&self) -> u16 {
        (self.rows.len() + 3).try_into().unwrap_or(u16::MAX)
    }

    /// Draws it as wished; of one that is selected the title says so.
    pub fn draw(mut self, frame: &mut Frame, area: Rect, style: ViewStyle, wish: &mut Wish, selected: bool) {
        self.sort(wish);
        let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        let body = Rect { height: body.height.saturating_sub(1), ..body };
        wish.room = usize::from(body.height.saturating_sub(1));
        wish.first = wish.first.min(self.rows.len().saturating_sub(wish.room.max(1)));
        let shown = wish.first..self.rows.len().min(wish.first + wish.room);
        let words = format!("{}{}{}", if selected { "> " } else { "" }, self.title, self.part(&shown));
        frame.render_widget(Paragraph::new(words).style(style.heading()), title);
        let places = self.places();
        let widths = places.iter().map(|place| match self.columns[*place].width {
            0 => Constraint::Fill(1),
            width => Constraint::Length(width),
        });
        let headings = places.iter().map(|place| self.heading(*place, wish));
        let rows = self.rows[shown].iter().map(|row| {
            Row::new(places.iter().map(|place| aligned(&row[*place].text(), self.columns[*place].width)))
        });
        let table = Widget::new(rows, widths).header(Row::new(headings).style(style.heading()));
        frame.render_widget(table, body);
    }

    fn sort(&mut self, wish: &Wish) {
        if let Some(column) = wish.column.filter(|column| *column < self.columns.len()) {
            self.rows.sort_by(|one, two| one[column].order(&two[column]));
        }
        if wish.reversed {
            self.rows.reverse();
        }
    }

    /// Which rows are drawn, where these are not all.
    fn part(&self, shown: &Range<usize>) -> String {
        if shown.is_empty() || shown.len() == self.rows.len() {
            return String::new();
        }
        format!(" (rows {} to {} of {})", shown.start + 1, shown.end, self.rows.len())
    }

    fn heading(&self, place: usize, wish: &Wish) -> Drawn<'static> {
        let Column { heading, width } = self.columns[place];
        let mark = match wish.column == Some(place) {
            true if wish.reversed => "▲",
            true => "▼",
            false => "",
        };
        aligned(&format!("{heading}{mark}"), width)
    }
}

/// Numbers to the right; what has no width of its own (0) to the left.
fn aligned(text: &str, width: u16) -> Drawn<'static> {
    let text = clean(text);
    Drawn::from(match width {
        0 => text,
        width => format!("{text:>width$}", width = usize::from(width)),
    })
}
