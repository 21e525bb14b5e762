"""Instance types as each price snapshot describes them.

Revision: 20261130_2
Follows: 20261130_1
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261130_2"
down_revision = "20261130_1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "instance_types",
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("instance_type", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=True),
        sa.Column("memory_gib", sa.Double(), nullable=True),
        sa.Column("cpu_arch", sa.Text(), nullable=True),
        sa.Column("accelerator", sa.Text(), nullable=True),
        sa.Column("accelerator_kind", sa.Text(), nullable=False),
        sa.Column("device_count", sa.Integer(), nullable=False),
        sa.Column("device_fraction", sa.Double(), nullable=False),
        sa.Column("device_memory_gib", sa.Double(), nullable=True),
        sa.Column("interconnect_kind", sa.Text(), nullable=False),
        sa.Column("interconnect_gb_s_bidirectional", sa.Double(), nullable=True),
        sa.Column("network_gbps", sa.Double(), nullable=True),
        sa.Column("efa_supported", sa.Boolean(), nullable=False),
        sa.Column("local_nvme_gb", sa.Double(), nullable=True),
        sa.Column("capacity_block_only", sa.Boolean(), nullable=False),
        sa.Column("confidence", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("retrieved_on", sa.Date(), nullable=True),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id", "position", name="pk_instance_types"),
        sa.ForeignKeyConstraint(
            ["snapshot_id"],
            ["price_snapshots.snapshot_id"],
            name="fk_instance_types_snapshot_id_price_snapshots",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_instance_types_instance_type", "instance_types", ["instance_type"])


def downgrade() -> None:
    op.drop_table("instance_types")
