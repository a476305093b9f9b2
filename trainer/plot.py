"""Acceptance by block position as a small SVG, drawn by hand: a run needs no plotting library for one chart."""

from trainer.evaluate import Evaluation

WIDTH, HEIGHT, MARGIN = 520, 240, 36


def acceptance_svg(evaluation: Evaluation) -> str:
    """Return the chart as an SVG document."""
    shares = evaluation.by_position
    step = (WIDTH - 2 * MARGIN) / max(len(shares), 1)
    floor = HEIGHT - MARGIN
    bars = []
    for place, share in enumerate(shares):
        left, tall = MARGIN + place * step, share * (floor - MARGIN)
        middle = left + step / 2
        bars.append(
            f'<rect x="{left + step * 0.15:.1f}" y="{floor - tall:.1f}" width="{step * 0.7:.1f}" height="{tall:.1f}"'
            f' fill="#3b7dd8"><title>position {place + 1}: {share:.1%}</title></rect>'
            f'<text x="{middle:.1f}" y="{floor + 14}" text-anchor="middle">{place + 1}</text>'
        )
    length, passes = evaluation.acceptance_length, evaluation.cycles
    title = f"accepted at block position; {length:.2f} tokens a target pass over {passes} passes"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="11">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
        f'<text x="{MARGIN}" y="20">{title}</text>'
        f'<text x="{MARGIN - 6}" y="{MARGIN + 4}" text-anchor="end">1</text>'
        f'<text x="{MARGIN - 6}" y="{floor}" text-anchor="end">0</text>'
        f'<line x1="{MARGIN}" y1="{floor}" x2="{WIDTH - MARGIN}" y2="{floor}" stroke="#888888"/>'
        + "".join(bars)
        + "</svg>\n"
    )
