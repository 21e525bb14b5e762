"""Changes of spot prices, one row each, under the pool (type and zone) that they are of.

Revision: 20261130_4
Follows: 20261130_3
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261130_4"
down_revision = "20261130_3"
branch_labels = None
depends_on = None

MOMENT = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
EXACT = sa.Text().with_variant(sa.Numeric(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "spot_pools",
        sa.Column("pool_id", sa.Integer(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("availability_zone_id", sa.Text(), nullable=True),
        sa.Column("availability_zone", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("pool_id", name="pk_spot_pools"),
        sa.UniqueConstraint("provider", "region", "instance_type", "zone", "currency", name="uq_spot_pools_pool"),
    )
    op.create_table(
        "spot_price_changes",
        sa.Column("pool_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("unit_price", EXACT, nullable=False),
        sa.PrimaryKeyConstraint("pool_id", "since", "unit_price", name="pk_spot_price_changes"),
        sa.ForeignKeyConstraint(
            ["pool_id"],
            ["spot_pools.pool_id"],
            name="fk_spot_price_changes_pool_id_spot_pools",
            ondelete="CASCADE",
        ),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("spot_price_changes")
    op.drop_table("spot_pools")
