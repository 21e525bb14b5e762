"""Price snapshots, their sources and their quotes.

Revision: 20261130_1
Follows: nothing
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261130_1"
down_revision = None
branch_labels = None
depends_on = None

MOMENT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
EXACT = sa.Text().with_variant(sa.Numeric(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "price_snapshots",
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("as_of", MOMENT, nullable=False),
        sa.Column("published_at", MOMENT, nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("quote_count", sa.Integer(), nullable=False),
        sa.Column("instance_type_count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id", name="pk_price_snapshots"),
    )
    op.create_table(
        "price_snapshot_sources",
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("as_of", MOMENT, nullable=False),
        sa.Column("quotes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id", "position", name="pk_price_snapshot_sources"),
        sa.ForeignKeyConstraint(
            ["snapshot_id"],
            ["price_snapshots.snapshot_id"],
            name="fk_price_snapshot_sources_snapshot_id_price_snapshots",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "price_quotes",
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("availability_zone_id", sa.Text(), nullable=True),
        sa.Column("availability_zone", sa.Text(), nullable=True),
        sa.Column("purchase_option", sa.Text(), nullable=False),
        sa.Column("plan_type", sa.Text(), nullable=True),
        sa.Column("offering_class", sa.Text(), nullable=True),
        sa.Column("term_years", sa.Integer(), nullable=True),
        sa.Column("payment_option", sa.Text(), nullable=True),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("list_unit_price", EXACT, nullable=True),
        sa.Column("contracted_unit_price", EXACT, nullable=True),
        sa.Column("upfront", EXACT, nullable=True),
        sa.Column("effective_unit_price", EXACT, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=True),
        sa.Column("effective_from", sa.Date(), nullable=True),
        sa.Column("retrieved_at", MOMENT, nullable=False),
        sa.Column("derived", sa.Boolean(), nullable=False),
        sa.Column("at_on_demand_cap", sa.Boolean(), nullable=True),
        sa.Column("confidence", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id", "position", name="pk_price_quotes"),
        sa.ForeignKeyConstraint(
            ["snapshot_id"],
            ["price_snapshots.snapshot_id"],
            name="fk_price_quotes_snapshot_id_price_snapshots",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_price_quotes_lookup",
        "price_quotes",
        ["instance_type", "region", "purchase_option", "snapshot_id"],
    )


def downgrade() -> None:
    op.drop_table("price_quotes")
    op.drop_table("price_snapshot_sources")
    op.drop_table("price_snapshots")
